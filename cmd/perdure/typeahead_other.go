//go:build !linux

package main

// dropTyped does nothing here: what was typed ahead stays.
func dropTyped() {}
