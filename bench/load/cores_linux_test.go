package main

import (
	"runtime"
	"testing"
)

// TestHalves: each CPU belongs to one half; a single CPU belongs to both.
func TestHalves(t *testing.T) {
	t.Parallel()
	all := cores{0: 1<<1 | 1<<63, 1: 1<<3 | 1<<4 | 1<<5}
	first, second := all.halves()
	if first != (cores{0: 1<<1 | 1<<63}) || second != (cores{1: 1<<3 | 1<<4 | 1<<5}) || all.count() != 5 {
		t.Errorf("got %b and %b", first, second)
	}
	alone := cores{0: 4}
	if first, second := alone.halves(); first != alone || second != alone {
		t.Errorf("got %b and %b", first, second)
	}
}

// TestApart: this process has all its CPUs again at the end.
func TestApart(t *testing.T) { // not parallel: it is about the whole process
	procs, started := runtime.GOMAXPROCS(0), false
	release, err := splitCPUs(func() error { started = true; return nil })
	if err != nil || !started {
		t.Fatalf("started %v, %v", started, err)
	}
	if err := release(); err != nil || runtime.GOMAXPROCS(0) != procs {
		t.Errorf("%d processors of %d, %v", runtime.GOMAXPROCS(0), procs, err)
	}
}
