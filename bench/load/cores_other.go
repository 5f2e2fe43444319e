//go:build !linux

package main

// apart has start run. Where there is no way to say so, what it starts shares the processor cores with this process.
func apart(start func() error) (release func() error, err error) {
	return func() error { return nil }, start()
}
