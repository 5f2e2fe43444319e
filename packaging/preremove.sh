#!/bin/sh
# Stops the service when the package is removed, not when it is updated. The data stays in
# /var/lib/perdure. The first argument is "remove" for dpkg, and 0 for rpm.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	case "${1:-}" in
	remove | 0) systemctl disable --now perdure.service || true ;;
	esac
fi
