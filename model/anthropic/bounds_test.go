package anthropic_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
)

// endless is the way out to an answer of these bytes, over and over.
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
	opening := func(n int) string {
		return sse(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"a%d","name":"pay","input":{"euro":5}}}`, n, n) + "\n" +
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, n))
	}
	long := strings.Repeat("x", 1<<16)
	begin := opening(0) + sse(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`)
	piece := sse(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"` + long + `"}}`)
	for name, c := range map[string]struct {
		begin string
		event func(n int) string
		most  int64 // bytes of the wire
		want  string
	}{
		"text":               {begin, func(int) string { return piece }, 32 << 20, "32 MiB"},
		"one line":           {begin + "data: ", func(int) string { return long }, 16 << 20, "16 MiB"},
		"one event of lines": {begin, func(int) string { return "data: " + long + "\n" }, 16 << 20, "16 MiB"},
		"pings":              {begin, func(int) string { return "event: ping\ndata: {}\n\n: " + long + "\n\n" }, 32 << 20, "MiB"},
		"blocks":             {begin, func(n int) string { return opening(n + 2) }, 1 << 20, "more than 1000 content blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			m := adapter(t, anthropic.Config{Name: "m", Key: key, BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: endless{c.begin, c.event, &sent}}})
			calls, broken := 0, 0
			var failed *model.Error

			for d, err := range m.Stream(t.Context(), hello) {
				errors.As(err, &failed)
				broken += d.DiscardedCalls
				if d.Call != nil {
					calls++
				}
			}

			if failed == nil || failed.Code != model.Processing || !strings.Contains(failed.Text, c.want) || calls != 0 || broken == 0 {
				t.Errorf("got %d calls, %d broken, %v; want none, some, and %s", calls, broken, failed, c.want)
			}
			if slack := int64(8 << 20); sent.Load() > c.most+slack {
				t.Errorf("%d bytes were taken, want about %d", sent.Load(), c.most)
			}
		})
	}
}

// TestNoSignsOfLife: events that bring nothing new yield nothing, so that a stream that hangs
// behind them is seen to (TN8).
func TestNoSignsOfLife(t *testing.T) {
	t.Parallel()
	const opening = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"pay","input":{}}}`
	const usage = `{"type":"message_delta","delta":{},"usage":{"output_tokens":3}}`
	for _, again := range []string{
		opening, usage, `{"type":"message_start","message":{"model":"m"}}`, `{"type":"ping"}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
	} {
		lines := []string{`{"type":"message_start","message":{"model":"m"}}`, opening, usage}
		for range 20 {
			lines = append(lines, again)
		}
		lines = append(lines, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)

		h := hear(t, replay{bytes: []byte(sse(strings.Join(lines, "\n")))})

		// The model, the opening, usage, the arguments, the call, the finish.
		if len(h.deltas) != 6 || h.err != nil {
			t.Errorf("%s, twenty times: got %d deltas, %v; want 6", again, len(h.deltas), h.err)
		}
	}
}
