package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded returns the recorded streams by name.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(paths) < 9 {
		t.Fatalf("got %d streams, error %v; want at least 9", len(paths), err)
	}
	streams := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		streams[strings.TrimSuffix(filepath.Base(path), ".sse")] = text
	}
	return streams
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// TestRecorded compares what is made of each recorded stream with what it says.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for name, text := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := play(t, t.Context(), tape{bytes: text})
			golden(t, "testdata/streams/"+name+".json", written(t, a, err))

			withReturns, err2 := play(t, t.Context(), tape{bytes: bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))})
			if got, want := written(t, withReturns, err2), written(t, a, err); !bytes.Equal(got, want) {
				t.Errorf("with lines that end with CR LF: got %s, want %s", got, want)
			}
		})
	}
}

func written(t *testing.T, a model.Answer, err error) []byte {
	t.Helper()
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	text, err := json.MarshalIndent(struct {
		Text, Thinking string
		Calls          []perdure.ToolCall
		Usage          perdure.Usage
		Finish         model.Finish
		Model          string
		Discarded      int
		Error          string
	}{a.Message.Text(), a.Message.Thinking, a.Message.Calls(), a.Usage, a.Finish, a.Model, a.Discarded, failure}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestR19CutAtEveryByte cuts each recorded stream everywhere, so that it ends in order, or with an
// error: an answer is whole exactly when its finish came, text is the beginning of the text, and
// no call is made of half its arguments.
func TestR19CutAtEveryByte(t *testing.T) {
	t.Parallel()
	for name, text := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var whole ending
			whole.answer, whole.err = play(t, t.Context(), tape{bytes: text})
			finished, late := endOfFinish(text), endOfContent(text)
			for n := range len(text) {
				if n >= finished && n < late {
					continue // the answer may be whole, or miss what follows its finish
				}
				ends := []error{[]error{nil, io.ErrUnexpectedEOF}[n%2]} // in turn, and both between events
				if bytes.HasSuffix(text[:n], []byte("\n\n")) {
					ends = []error{nil, io.ErrUnexpectedEOF}
				}
				for _, end := range ends {
					a, err := play(t, t.Context(), tape{bytes: text[:n], end: end})
					if why := wrongCut(whole, ending{a, err}, n >= finished); why != "" {
						t.Fatalf("cut after %d bytes, then %v: %s\n%s", n, end, why, written(t, a, err))
					}
				}
			}
		})
	}
}

// endOfFinish returns where the data of the event with the finish is complete. It needs no end of
// a line, because its JSON ends by itself.
func endOfFinish(text []byte) int {
	at := 0
	for event := range bytes.SplitAfterSeq(text, []byte("\n\n")) {
		if bytes.Contains(event, []byte(`"finish_reason":"`)) {
			return at + len(bytes.TrimRight(event, "\n"))
		}
		at += len(event)
	}
	return at
}

// endOfContent returns where the data of the last event with text is complete, if text follows the
// finish; else 0.
func endOfContent(text []byte) int {
	at, end := 0, 0
	for event := range bytes.SplitAfterSeq(text, []byte("\n\n")) {
		if at > endOfFinish(text) && bytes.Contains(event, []byte(`"content":"late"`)) {
			end = at + len(event)
		}
		at += len(event)
	}
	return end
}

// ending is what came of a stream.
type ending struct {
	answer model.Answer
	err    error
}

// wrongCut says in which way an answer is not what may come of a cut; empty: in none.
func wrongCut(of, after ending, finished bool) string {
	whole, got, err := of.answer, after.answer, after.err
	var e *model.Error
	switch {
	case err != nil && !errors.As(err, &e):
		return "the error is no *model.Error"
	case of.err == nil && (err == nil) != finished:
		return fmt.Sprintf("the finish had come: %v", finished)
	case err != nil && e.Code != model.Unavailable:
		return "the code is " + string(e.Code)
	case got.Message.Interrupted != (err != nil):
		return "it is not marked for what it is"
	case !strings.HasPrefix(whole.Message.Text(), got.Message.Text()), !strings.HasPrefix(whole.Message.Thinking, got.Message.Thinking):
		return "the text is not the beginning of the text"
	case got.Usage.InputTokens > whole.Usage.InputTokens || got.Usage.OutputTokens > whole.Usage.OutputTokens:
		return "the usage is larger"
	}
	want, calls := whole.Message.Calls(), got.Message.Calls()
	if err == nil && len(calls) != len(want) || err != nil && len(want) > 0 && len(calls) >= len(want) {
		return fmt.Sprintf("there are %d calls", len(calls)) // the last one is closed by the finish only
	}
	for i, c := range calls {
		if c.ID != want[i].ID || c.Name != want[i].Name || !bytes.Equal(c.Arguments, want[i].Arguments) {
			return fmt.Sprintf("call %d is %s(%s)", i, c.Name, c.Arguments)
		}
	}
	if err == nil && (got.Finish != whole.Finish || got.Message.Text() != whole.Message.Text()) {
		return "it passes for whole and is not"
	}
	return ""
}

// TestR19EveryEventTwice sends every event that opens a call, finishes or counts a second time.
func TestR19EveryEventTwice(t *testing.T) {
	t.Parallel()
	for name, text := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, wholeErr := play(t, t.Context(), tape{bytes: text})
			var twice []byte
			for event := range bytes.SplitAfterSeq(text, []byte("\n\n")) {
				twice = append(twice, event...)
				for _, mark := range []string{`"id":"call_`, `"id":"chatcmpl-tool`, `"finish_reason":"`, `"choices":[],"usage":{`, "DONE"} {
					if bytes.Contains(event, []byte(mark)) {
						twice = append(twice, event...)
						break
					}
				}
			}

			a, err := play(t, t.Context(), tape{bytes: twice})

			if got, want := written(t, a, err), written(t, whole, wholeErr); !bytes.Equal(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// FuzzStream reads any bytes as a stream: nothing panics, deltas are valid, and each call is
// closed.
func FuzzStream(f *testing.F) {
	for _, text := range recorded(f) {
		f.Add(text)
	}
	f.Add(stream(delta(`{"content":"\ud83d"}`), delta(`{"content":"\ude42"}`), finish("stop"), "[DONE]"))
	f.Add(stream(delta("{\"content\":\"\xc3\"}"), delta("{\"content\":\"\xb6\"}"), finish("length")))
	f.Add([]byte("data:\n\ndata: [DONE]\n\n: x\n\nevent: error\ndata: {\"message\":\"no\"}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := play(t, context.Background(), tape{bytes: text, end: io.ErrUnexpectedEOF})

		var e *model.Error
		if err != nil && !errors.As(err, &e) || (err == nil) != (a.Finish != "") {
			t.Errorf("got finish %q and error %v", a.Finish, err)
		}
		if !utf8.ValidString(a.Message.Text()) || !utf8.ValidString(a.Message.Thinking) {
			t.Errorf("got text %q, thinking %q", a.Message.Text(), a.Message.Thinking)
		}
		for _, c := range a.Message.Calls() {
			if c.Name == "" || !utf8.Valid(c.Arguments) || !json.Valid(c.Arguments) {
				t.Errorf("got call %s(%s)", c.Name, c.Arguments)
			}
			if err != nil && !bytes.HasPrefix(bytes.TrimSpace(c.Arguments), []byte("{")) {
				t.Errorf("got call %s(%s) of a stream that broke", c.Name, c.Arguments)
			}
		}
		if min(a.Usage.InputTokens, a.Usage.OutputTokens, a.Usage.CachedTokens, int64(a.Discarded)) < 0 {
			t.Errorf("got usage %+v, %d discarded", a.Usage, a.Discarded)
		}
	})
}
