"""One virtual machine with a kernel and a boot loader of its own, for what containers cannot show."""
