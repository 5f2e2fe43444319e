package gcstart

import (
	"runtime/debug"
	"testing"
)

// TestBegin raises the percentage, restores it, and leaves alone what a user has set.
func TestBegin(t *testing.T) {
	const usual = 123
	percent := func() int {
		now := debug.SetGCPercent(usual)
		debug.SetGCPercent(now)
		return now
	}
	defer debug.SetGCPercent(debug.SetGCPercent(usual))

	if begin("50", func(func()) { t.Error("something is restored later") }) || percent() != usual {
		t.Errorf("a user's percentage became %d", percent())
	}
	var end func()
	if !begin("", func(f func()) { end = f }) || percent() != startPercent {
		t.Errorf("at the start it is %d, want %d", percent(), startPercent)
	}
	end()
	if percent() != usual {
		t.Errorf("later it is %d, want %d", percent(), usual)
	}
}
