package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/sse"
)

// event is an event with its data as text.
type event struct {
	Event, ID, Data string
	HasID           bool
}

// readEvents reads events of at most maxBytes bytes until the stream ends.
func readEvents(r io.Reader, maxBytes int) (all []event, err error) {
	events := sse.NewReader(r, maxBytes)
	for {
		got, err := events.Next()
		if err != nil {
			return all, err
		}
		all = append(all, event{Event: got.Name, ID: got.ID, HasID: got.HasID, Data: string(got.Data)})
	}
}

// streams are texts with the events in them, after WHATWG HTML 9.2.6.
func streams() map[string][]event {
	return map[string][]event{
		"": nil,
		"retry: 1000\n\nid: 7\nevent: turn.started\ndata: {\"v\":1}\n\n": {{Event: "turn.started", ID: "7", HasID: true, Data: `{"v":1}`}},
		"data: one\ndata: two\n\ndata\n\ndata:\ndata:\n\n":               {{Data: "one\ntwo"}, {}, {Data: "\n"}},
		"data:x\n\ndata: x\n\ndata:  x\n\n":                              {{Data: "x"}, {Data: "x"}, {Data: " x"}},
		"event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\rdata: 3\n\n":    {{Event: "a", Data: "1"}, {Event: "b", Data: "2"}, {Data: "3"}},
		": ping\n\n:\n\n: data: no\n\ndata: yes\n\n":                     {{Data: "yes"}},
		"\ufeffdata: 1\n\n\ufeffdata: 2\n\n":                             {{Data: "1"}},
		"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n":                   {{ID: "1", HasID: true, Data: "a"}, {Data: "b"}, {HasID: true, Data: "c"}},
		"id: a\x00b\ndata: a\n\n":                                        {{Data: "a"}},
		"event: end\n\n":                                                 {{Event: "end"}},
		"data: a:b: c\nData: d\nother: e\nonly\n\n":                      {{Data: "a:b: c"}},
		"data: whole\n\ndata: cut":                                       {{Data: "whole"}},
		"data: whole\n\ndata: cut\n":                                     {{Data: "whole"}},
		"event: a\nevent: b\ndata: ä€😀\n\n\n\n\n":                        {{Event: "b", Data: "ä€😀"}},
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for text, want := range streams() {
		got, err := readEvents(strings.NewReader(text), 1<<20)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

// TestEventsComeAtOnce: an event is returned with the last byte of its end, in every form of line
// end, whatever may follow.
func TestEventsComeAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\n\r"} {
		text := "data: x" + end
		got, err := readEvents(io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrNoProgress)), 1<<20)
		if len(got) != 1 || got[0].Data != "x" || !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

// TestEventsAreBounded: an event may have the maximum number of bytes and no more, in one line or
// in many.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 200_000
	line := "data: " + strings.Repeat("x", most-len("data: "))
	many := strings.Repeat("data: 23456789\n", most/len("data: 23456789"))
	comments := strings.Repeat(": "+strings.Repeat("c", 1000)+"\n", 1000)
	for name, c := range map[string]struct {
		text string
		long bool
	}{
		"a line": {line + "\n\n", false}, "a longer line": {line + "x\n\n", true}, "a line without end": {strings.Repeat("x", most+1), true},
		"lines": {many + "\n", false}, "more lines": {many + "data: 12345\n\n", true},
		"comments between": {comments + "data: 1\n\n", false}, "events": {strings.Repeat("data: 1\n\n", most), false},
	} {
		got, err := readEvents(strings.NewReader(c.text), most)
		if errors.Is(err, sse.ErrTooLong) != c.long || len(got) == 0 != c.long {
			t.Errorf("%s: %d events, %v; want too long: %t", name, len(got), err, c.long)
		}
	}
}

// FuzzSSE compares the reader with a simple one that has the whole text, however the text is split
// on its way.
func FuzzSSE(f *testing.F) {
	for text := range streams() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := plainEvents(text)
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
			"halves": iotest.HalfReader(strings.NewReader(text)), "end with the last byte": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := readEvents(r, 1<<30)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
		if got, err := readEvents(strings.NewReader(text), 64); err == nil {
			t.Errorf("no error after %d events", len(got))
		}
	})
}

// plainEvents reads a stream following the text of the standard.
func plainEvents(text string) []event {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	lines := strings.Split(text, "\n")
	var all []event
	var now event
	var data []string
	some := false
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if some {
				now.Data = strings.Join(data, "\n")
				all = append(all, now)
			}
			now, data, some = event{}, nil, false
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "event":
			now.Event, some = value, true
		case name == "data":
			data, some = append(data, value), true
		case name == "id" && !strings.Contains(value, "\x00"):
			now.ID, now.HasID, some = value, true, true
		}
	}
	return all
}
