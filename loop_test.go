package perdure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// round is one step of a turn: a call, and what came of it.
type round struct{ tool, args, result string }

// times is a round so many times.
func times(n int, r round) (all []round) {
	for range n {
		all = append(all, r)
	}
	return all
}

// plays lets a turn make calls, one a step, until it is sealed, and returns how many were made.
func plays(t *testing.T, w *simulator, rounds []round) int {
	t.Helper()
	for i, r := range rounds {
		print, err := perdure.Fingerprint(r.tool, []byte(r.args))
		if err != nil {
			t.Fatal(err)
		}
		c := call(perdure.CallID(fmt.Sprintf("call_%d", i)))
		c.Name, c.Args, c.Fingerprint = r.tool, r.args, print
		w.settle(w.answer("", c)...)
		w.settle(done(w.runs()[0].Call, r.result))
		if w.rested {
			return i + 1
		}
	}
	return len(rounds)
}

func found(w *simulator) (all []perdure.LoopDetected) {
	for _, e := range w.events {
		if f, ok := e.Fact.(perdure.LoopDetected); ok {
			all = append(all, f)
		}
	}
	return all
}

func TestLoops(t *testing.T) { // TN24
	t.Parallel()
	same, other := round{"bash", `{"command":"ls"}`, `"a"`}, round{"bash", `{"command":"ls"}`, `"b"`}
	read, write := round{"read_file", `{"path":"/a"}`, `"text"`}, round{"write_file", `{"path":"/b"}`, `"ok"`}
	stamped := func(n int) round {
		return round{"bash", `{}`, fmt.Sprintf(`{"at":"2026-01-02T03:04:0%dZ","task":"task_%032d","duration_ms":%d,"said":"no"}`, n, n, 17*n)}
	}
	cases := map[string]struct {
		rounds []round
		want   []int // the reported counts
	}{
		"two are none":               {times(2, same), nil},
		"three in a row":             {times(3, same), []int{3}},
		"reported once":              {times(9, same), []int{3}},
		"another result in between":  {append(append(times(2, same), other), times(2, same)...), nil},
		"another call in between":    {append(append(times(2, same), write), times(2, same)...), nil},
		"other moments and ids":      {[]round{stamped(1), stamped(2), stamped(3)}, []int{3}},
		"another number":             {[]round{{"bash", "{}", `{"left":3}`}, {"bash", "{}", `{"left":2}`}, {"bash", "{}", `{"left":1}`}}, nil},
		"a range read again":         {[]round{read, write, read, write, read}, []int{3}},
		"a file that has changed":    {[]round{read, write, {"read_file", read.args, `"new"`}, write, read}, nil},
		"another range":              {[]round{read, {"read_file", `{"path":"/a","offset":9}`, `"text"`}, read}, nil},
		"waiting":                    {times(6, round{"wait_task", `{}`, `"running"`}), nil},
		"looking":                    {times(6, round{"check_background_tool", `{}`, `"running"`}), nil},
		"waiting does not break one": {[]round{same, {"wait_task", `{}`, `1`}, same, {"get_task", `{}`, `1`}, same}, []int{3}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := asking(t, perdure.Agent{})

			plays(t, w, c.rounds)

			reports := found(w)
			got := []int{}
			for _, f := range reports {
				got = append(got, f.Count)
				if len(f.Message.Parts) == 0 || !strings.Contains(f.Message.Text(), f.Name) {
					t.Errorf("the model reads %q", f.Message.Text())
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(append([]int{}, c.want...)) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if _, asked := w.model(); !asked {
				t.Error("it blocks")
			}
		})
	}
}

func TestSealAfter(t *testing.T) { // TN24
	t.Parallel()
	for after, want := range map[int]int{1: 3, 3: 3, 4: 4, 0: 9} {
		w := asking(t, perdure.Agent{SealAfter: after})

		made := plays(t, w, times(9, round{"bash", `{}`, `"a"`}))

		if made != want || (after > 0) != w.rested {
			t.Errorf("after %d: %d calls, want %d", after, made, want)
		}
		if after > 0 && last[perdure.TurnSealed](t, w).Reason != "no_progress" {
			t.Errorf("after %d: %+v", after, last[perdure.TurnSealed](t, w))
		}
	}
}
