package ui

//go:generate bash ../../scripts/ui-build.sh
