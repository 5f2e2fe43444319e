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

// readValues reads all values of a body. A sign of life is written as a dot.
func readValues(r io.Reader, kind string) (all []string, err error) {
	values := sse.NewValues(r, kind, 1<<20)
	for {
		v, err := values.Next()
		switch {
		case err != nil:
			return all, err
		case len(v.Data) == 0:
			all = append(all, ".")
		case v.Name != "":
			all = append(all, v.Name+" "+string(v.Data))
		default:
			all = append(all, string(v.Data))
		}
	}
}

// TestValues reads answers in the forms that servers send, by their bytes.
func TestValues(t *testing.T) {
	t.Parallel()
	const json, events = "application/json", "text/event-stream"
	cases := []struct {
		name, kind, body string
		want             []string
		err              error
	}{
		{"events called JSON", json, "data: {\"a\":1}\n\ndata: [DONE]\n\n", []string{`{"a":1}`, "[DONE]"}, io.EOF},
		{"events without a space", json, "event:x\ndata:{}\n\n", []string{"x {}"}, io.EOF},
		{"events without empty lines", events, "data: {\"a\":1}\ndata: {\"a\":2}\ndata: [DONE]\n", []string{`{"a":1}`, `{"a":2}`, "[DONE]"}, io.EOF},
		{"a last event without an end", events, "data: {\"a\":1}\n\ndata: {\"a\":2}", []string{`{"a":1}`, `{"a":2}`}, io.EOF},
		{"a last event that is cut", events, "data: {\"a\":1}\n\ndata: {\"a\":", []string{`{"a":1}`}, io.EOF},
		{"one value on several lines of data", events, "data: {\"a\":\ndata: 1}\n\n", []string{"{\"a\":\n1}"}, io.EOF},
		{"comments and empty lines", "", ": busy\n\n:\n\ndata: 1\n\n", []string{".", ".", ".", ".", "1"}, io.EOF},
		{"JSON called events", events, "{\"a\":1}", []string{`{"a":1}`}, io.EOF},
		{"lines of JSON", "application/x-ndjson", "{\"a\":1}\n{\"a\":2}\n[DONE]\n", []string{`{"a":1}`, `{"a":2}`, "[DONE]"}, io.EOF},
		{"JSON that ends like events", events, "{\"a\":1}\ndata: [DONE]\n\n", []string{`{"a":1}`, "[DONE]"}, io.EOF},
		{"values in a row", json, `{"a":1}{"a":2}`, []string{`{"a":1}`, `{"a":2}`}, io.EOF},
		{"JSON on several lines behind white space", json, "\n \n{\n\"a\": 1\n}\n", []string{".", ".", ".", "{\n\"a\": 1\n}"}, io.EOF},
		{"a byte order mark", json, "\ufeff{}", []string{".", "{}"}, io.EOF},
		{"JSON that is cut", json, `{"a":1}{"a":`, []string{`{"a":1}`}, sse.ErrBroken},
		{"JSON and text", json, `{"a":1} oops`, []string{`{"a":1}`}, sse.ErrBroken},
		{"a page", events, "<html></html>", nil, sse.ErrForeign},
		{"a text", "text/plain", "404 page not found", nil, sse.ErrForeign},
		{"nothing", json, "", nil, io.EOF},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{"at once": strings.NewReader(c.body), "byte by byte": iotest.OneByteReader(strings.NewReader(c.body))} {
				got, err := readValues(r, c.kind)
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
					t.Errorf("%s: got error %v, want %v; (-want +got):\n%s", how, err, c.err, diff)
				}
			}
		})
	}
}

// TestValuesComeAtOnce: an event whose data is whole is returned with the end of its line, so that
// a server that sends no empty lines still streams.
func TestValuesComeAtOnce(t *testing.T) {
	t.Parallel()
	got, err := readValues(io.MultiReader(strings.NewReader("data: {}\n"), iotest.ErrReader(io.ErrNoProgress)), "")
	if len(got) != 1 || got[0] != "{}" || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMayBeStream(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"": true, " \n": true, "da": true, "data: {\"a\":": true, ": busy\n\n": true, "event: x": true,
		"[]": false, "{}": false, "no healthy upstream": false, "deny": false,
	} {
		values := sse.NewValues(strings.NewReader(body), "text/event-stream", 1<<20)
		for {
			if _, err := values.Next(); err != nil {
				break
			}
		}
		if got := values.MayBeStream(); got != want {
			t.Errorf("%q: got %v, want %v", body, got, want)
		}
	}
}

// TestSplit returns the values of one event.
func TestSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, `{"a":1} {"a":2}`: `{"a":1}|{"a":2}`, `[{"a":1},{"a":2}]`: `{"a":1}|{"a":2}`, `[]`: ``,
		`{"a":1}{"a"`: `{"a":1}|broken`, `nonsense`: `broken`,
	} {
		values, err := sse.Split([]byte(text))
		var all []string
		for _, v := range values {
			all = append(all, string(v))
		}
		if err != nil {
			all = append(all, "broken")
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// FuzzValues reads any bytes in any form: it ends, and yields no more bytes than it read.
func FuzzValues(f *testing.F) {
	for _, text := range []string{"data: {}\n\n", "{}\n{}", "[{}]", "<p>", "\xef\xbb", ": x\n", "data: {\n", "{} data: [DONE]", "event: a\ndata: 1\nid: 2\n"} {
		f.Add(text, "text/event-stream")
		f.Add(text, "application/json")
	}
	f.Fuzz(func(t *testing.T, text, kind string) {
		got, err := readValues(strings.NewReader(text), kind)
		size := 0
		for _, v := range got {
			if v != "." {
				size += len(v)
			}
		}
		if err == nil || size > len(text)+len(got) {
			t.Errorf("got %d bytes of %d, %v", size, len(text), err)
		}
		for _, v := range got {
			if _, err := sse.Split([]byte(v)); err != nil && !errors.Is(err, sse.ErrBroken) {
				t.Errorf("%q: got %v", v, err)
			}
		}
	})
}
