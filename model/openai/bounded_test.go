package openai

import (
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/model"
)

// TestBounded: an answer without end is left with an error that says so, and so is an event without
// end.
func TestBounded(t *testing.T) {
	t.Parallel()
	for want, body := range map[error]*limitedBody{
		errTooLong: {left: 4, event: 6},
		errTooWide: {left: 6, event: 4},
	} {
		body.ReadCloser = io.NopCloser(strings.NewReader("abcdef"))

		got, err := io.ReadAll(body)

		if string(got) != "abcd" || !errors.Is(err, want) {
			t.Errorf("got %q, %v; want %v", got, err, want)
		}
		if e := broken(err); e.Code != model.Processing || !strings.Contains(e.Text, "MiB") {
			t.Errorf("got %v", e)
		}
	}
}

// endless is the transport of an answer of these events, over and over.
type endless struct {
	begin string
	event func(n int) string
	sent  *atomic.Int64 // bytes
}

func (e endless) RoundTrip(r *http.Request) (*http.Response, error) {
	out, in := io.Pipe()
	go func() {
		for n, text := 0, e.begin; ; n++ {
			if _, err := io.WriteString(in, text); err != nil {
				return // the reader is gone
			}
			e.sent.Add(int64(len(text)))
			text = e.event(n)
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out, Request: r}, nil
}

// TestEndlessAnswers: each of these is left within its bound, with an error that says why, and none
// of its calls is made.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const chunk = `data: {"choices":[{"index":0,"delta":`
	call := chunk + `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n"
	long := strings.Repeat("x", 1<<16)
	for name, c := range map[string]struct {
		begin string
		event func(n int) string
		most  int // bytes of the wire
		want  string
	}{
		"text":                   {call, func(int) string { return chunk + `{"content":"` + long + `"}}]}` + "\n\n" }, maxAnswerBytes, "64 MiB"},
		"keep-alives":            {call, func(int) string { return ": " + long + "\n\n" }, maxAnswerBytes, "MiB"},
		"one line":               {call + "data: ", func(int) string { return long }, maxEventBytes, "16 MiB"},
		"one event of lines":     {call, func(int) string { return "data: " + long + "\n" }, maxEventBytes, "16 MiB"},
		"calls":                  {call, func(n int) string { return numbered(chunk, strconv.Itoa(n+1), "a"+strconv.Itoa(n)) }, 1 << 20, "more than 1000 calls"},
		"calls of one index":     {call, func(n int) string { return numbered(chunk, "0", "a"+strconv.Itoa(n)) }, 1 << 20, "more than 1000 calls"},
		"calls without an index": {call, func(n int) string { return numbered(chunk, "null", "a"+strconv.Itoa(n)) }, 1 << 20, "more than 1000 calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			m, err := New(Config{Name: "m", BaseURL: "http://endless.test", HTTP: &http.Client{Transport: endless{c.begin, c.event, &sent}}})
			if err != nil {
				t.Fatal(err)
			}

			calls, broken, failed := drain(m.Stream(t.Context(), model.Request{}))

			if failed == nil || failed.Code != model.Processing || !strings.Contains(failed.Text, c.want) || calls != 0 || broken == 0 {
				t.Errorf("got %d calls, %d broken, %v; want none, some, and %s", calls, broken, failed, c.want)
			}
			if slack := 8 << 20; sent.Load() > int64(c.most+slack) {
				t.Errorf("%d bytes were taken, want about %d", sent.Load(), c.most)
			}
		})
	}
}

func numbered(chunk, index, id string) string {
	return chunk + `{"tool_calls":[{"index":` + index + `,"id":"` + id + `","function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n"
}

// drain reads a stream to its end and keeps nothing of it.
func drain(deltas iter.Seq2[model.Delta, error]) (calls, broken int, failed *model.Error) {
	for d, err := range deltas {
		errors.As(err, &failed)
		broken += d.DiscardedCalls
		if d.Call != nil {
			calls++
		}
	}
	return calls, broken, failed
}

// TestRepeatedNames: a server that names the call with every piece costs no look at all of its
// arguments each time. With one, these would take minutes.
func TestRepeatedNames(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var c calls
	add := func(text string) {
		p := piece{Index: new(int)}
		p.Function.Name, p.Function.Arguments = "f", arguments(text)
		c.add(p)
	}

	add(`{"content":"`)
	for range n {
		add("0123456789}")
	}
	add(`"}`)
	closed, broken := c.end(finished)

	if len(closed) != 1 || broken != 0 || len(closed[0].Arguments) != len(`{"content":""}`)+11*n {
		t.Errorf("got %d calls, %d broken", len(closed), broken)
	}
}
