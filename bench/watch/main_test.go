package main

import (
	"strings"
	"testing"
	"time"
)

// TestTicks finds the lines in the output of watch and in the events of a log, each once with the
// time of its first appearance.
func TestTicks(t *testing.T) {
	t.Parallel()
	first := make(chan struct{})
	watched := ticksIn(strings.NewReader("task_1  bash  ▸ running\ntask_1  | tick 1700000000000000001\nagain | tick 1700000000000000001\n| tick 1700000000000000002"), 9, first)
	<-first
	event := `data: {"offset":0,"at":"2023-11-14T22:13:21Z","bytes":"dGljayAxNzAwMDAwMDAwMDAwMDAwMDAxCnRpY2sgMTcwMDAwMDAwMDAwMDAwMDAwMgo="}` + "\n"
	streamed := ticksIn(strings.NewReader("id: 48\nevent: log\n"+event+"\ndata: {}\n"), 2, nil)
	if len(watched) != 2 || len(streamed) != 2 || !streamed[1700000000000000002].had.Equal(time.Unix(1700000001, 0)) || watched[1700000000000000001].seen.IsZero() {
		t.Errorf("watched %v, streamed %v", watched, streamed)
	}
}

// TestReport checks that each reference time has a row with both values and their ratio.
func TestReport(t *testing.T) {
	t.Parallel()
	began := time.Unix(1700000000, 0)
	sights := func(late time.Duration) map[int64]lineSeen {
		return map[int64]lineSeen{began.UnixNano(): {seen: began.Add(late), had: began.Add(20 * time.Millisecond)}}
	}
	var out strings.Builder
	if err := (watchRig{ticks: 1}).report(&out, sights(120*time.Millisecond), sights(70*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"watch saw 1 lines, the stream 1 of 1\n", "watch p50 100 ms, p95 100 ms (goal 150); stream p50  50 ms, p95  50 ms; p95 2.0 ×\n", "watch p50 120 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if err := (watchRig{ticks: 1}).report(&out, nil, sights(0)); err == nil {
		t.Error("watch saw nothing, and that is no error")
	}
	if err := run(t.Context(), []string{"-ticks", "0"}, &out, &out); err == nil {
		t.Error("nothing was measured, and that is no error")
	}
}
