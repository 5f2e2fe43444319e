package api_test

import (
	"runtime"
	"strings"
	"testing"
)

// TestR20StreamsAreShallow: while a stream is open, the operation that began it and the request
// have returned. What they needed, the buffers of net/http, and the stack that they were called on,
// are not held for each client.
func TestR20StreamsAreShallow(t *testing.T) { // not parallel: it looks at the stacks of all goroutines
	r := newRig(t, nil)
	id := r.talk("hi")
	one, many := r.open(id+"/events", nil), r.open("/v1/events?topics=tasks,"+strings.TrimPrefix(id, "/v1/sessions/"), nil)
	for _, s := range []*streamed{one, many} {
		for f, ok := s.next(); ok && f.name != "snapshot"; f, ok = s.next() {
		}
	}

	all := make([]byte, 8<<20)
	following := 0
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if !strings.Contains(stack, "(*follower).follow(") {
			continue
		}
		following++
		for _, under := range []string{"huma", "net/http.(*conn).serve("} {
			if strings.Contains(stack, under) {
				t.Errorf("a stream is written inside its operation or its request:\n%s", stack)
			}
		}
	}
	if following != 2 {
		t.Errorf("%d streams are open, want 2", following)
	}
}
