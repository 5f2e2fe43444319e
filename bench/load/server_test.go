package main

import "testing"

// TestTalk reads the memory figures in the log of a server.
func TestTalk(t *testing.T) {
	t.Parallel()
	var said serverLog
	if said.live() != 0 {
		t.Error("it held something before it said so")
	}
	for _, line := range []string{
		"gc 1 @0.010s 1%: 0.02+1.1+0.003 ms clock, 0.05+0.3/0.9/0+0.007 ms cpu, 3->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P\n",
		"something else\n",
		"gc 2 @0.020s 1%: 0.02+1.1+0.003 ms clock, 0.05+0.3/0.9/0+0.007 ms cpu, 60->62->35 MB, 70 MB goal, 8 MB stacks, 0 MB globals, 2 P\n",
		"gc 3 @0.030s 1%: 0.02+1.1+0.003 ms clock, 0.05+0.3/0.9/0+0.007 ms cpu, 90->92->50 MB, 70 MB goal, 9 MB stacks, 0 MB globals, 2 P\n",
	} {
		if _, err := said.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := said.live(); got != 43<<20 {
		t.Errorf("got %d", got)
	}
	if said.live() != 0 {
		t.Error("what was told is told again")
	}
}
