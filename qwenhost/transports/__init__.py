"""Ways to a bundle: this host, a host over SSH, many hosts, or files that somebody sent."""
