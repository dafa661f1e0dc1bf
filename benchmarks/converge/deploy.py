"""What pyinfra does: one operation for each setting. Its data are those of the other ways."""

from io import StringIO

from pyinfra import host  # type: ignore[import-not-found]
from pyinfra.operations import files, server  # type: ignore[import-not-found]

for key, value in host.data.sysctl.items():
    server.sysctl(key=key, value=value.split(), persist=True, persist_file="/etc/sysctl.d/90-baseline.conf")
for item, value in host.data.limits.items():
    files.line(
        path="/etc/security/limits.d/90-baseline.conf", line=f"* - {item} {value}", escape_regex_characters=True
    )
mode = files.put(
    src=StringIO(f"w /sys/kernel/mm/transparent_hugepage/enabled - - - - {host.data.transparent_hugepages}\n"),
    dest="/etc/tmpfiles.d/baseline.conf",
)
server.shell(commands=["systemd-tmpfiles --create /etc/tmpfiles.d/baseline.conf"], _if=mode.did_change)
