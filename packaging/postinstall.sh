#!/bin/sh
# Creates the user of the service. The service itself is neither enabled nor started: an operator
# decides that, and an update restarts a running one with: systemctl restart perdure
set -e
root=${DPKG_ROOT:-}
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers --root="${root:-/}" perdure.conf
elif [ -z "$root" ] && ! id perdure >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --home-dir /var/lib/perdure --no-create-home --shell /usr/sbin/nologin perdure
	elif command -v adduser >/dev/null 2>&1; then
		adduser -S -D -H -h /var/lib/perdure -s /sbin/nologin perdure
	fi
fi
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
