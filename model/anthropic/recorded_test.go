package anthropic_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recording is one of testdata/*.sse.
type recording struct {
	name  string
	bytes []byte
}

func recordings(t testing.TB) []recording {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got recordings %v and %v", paths, err)
	}
	var all []recording
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recording{strings.TrimSuffix(filepath.Base(path), ".sse"), text})
	}
	return all
}

// replay is the way out that answers every request with a recording, up to its end or to where it
// breaks.
type replay struct {
	bytes  []byte
	broken bool
}

func (p replay) RoundTrip(r *http.Request) (*http.Response, error) {
	var body io.Reader = bytes.NewReader(p.bytes)
	if p.broken {
		body = io.MultiReader(body, failing{io.ErrUnexpectedEOF})
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		Body: io.NopCloser(body), Request: r,
	}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// heard is all that a stream yielded.
type heard struct {
	answer model.Answer
	err    error
	deltas []model.Delta
}

func listen(t testing.TB, m model.Model, req model.Request) heard {
	t.Helper()
	var h heard
	h.answer, h.err = model.Collect(m.Stream(t.Context(), req), func(d model.Delta) { h.deltas = append(h.deltas, d) })
	return h
}

func hear(t testing.TB, out replay) heard {
	t.Helper()
	m := adapter(t, anthropic.Config{Name: "claude-test", BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: out}})
	return listen(t, m, model.Request{Messages: []perdure.Message{perdure.Text("Hello")}})
}

// String writes what was heard for people.
func (h heard) String() string {
	var b strings.Builder
	for _, d := range h.deltas {
		switch {
		case d.Thinking != "":
			fmt.Fprintf(&b, "thinking %q\n", d.Thinking)
		case d.Signature != "":
			fmt.Fprintf(&b, "signature %q\n", d.Signature)
		case d.Text != "":
			fmt.Fprintf(&b, "text %q\n", d.Text)
		case d.Call != nil:
			fmt.Fprintf(&b, "call %s %s %s\n", d.Call.ID, d.Call.Name, d.Call.Arguments)
		case d.DiscardedCalls > 0:
			fmt.Fprintf(&b, "broken %d\n", d.DiscardedCalls)
		case d.Usage != nil:
			fmt.Fprintf(&b, "usage in %d out %d cached %d\n", d.Usage.InputTokens, d.Usage.OutputTokens, d.Usage.CachedTokens)
		case d.Model != "":
			fmt.Fprintf(&b, "model %s\n", d.Model)
		case d.Finish != "":
			fmt.Fprintf(&b, "finish %s\n", d.Finish)
			if d.State != nil && len(d.State.Fields) > 0 {
				fmt.Fprintf(&b, "state %s\n", d.State.Fields["thinking_blocks"])
			}
		}
	}
	if h.err != nil {
		fmt.Fprintf(&b, "error %v\n", h.err)
	}
	return b.String()
}

// golden compares files with those of an archive, and rewrites it with -update.
func golden(t *testing.T, path string, got txtar.Archive) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(&got))); diff != "" {
		t.Errorf("%s (-want +got), -update accepts it:\n%s", path, diff)
	}
}

// TestRecordedStreams: each recording yields these deltas and no others.
func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	var got txtar.Archive
	for _, r := range recordings(t) {
		got.Files = append(got.Files, txtar.File{Name: r.name, Data: []byte(hear(t, replay{bytes: r.bytes}).String())})
	}
	golden(t, "testdata/answers.txtar", got)
}

// TestCutAtEveryByte: what came of a recording that was cut is the beginning of the whole, no call
// among it is half, and the answer is whole or its error may be tried again (R19, TN7).
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			whole := hear(t, replay{bytes: r.bytes})
			for n := range len(r.bytes) + 1 {
				broken := n%2 == 0 // the connection says so, or just ends
				checkPart(t, hear(t, replay{bytes: r.bytes[:n], broken: broken}), whole)
				if t.Failed() {
					t.Fatalf("cut after %d bytes, with an error of the connection: %v", n, broken)
				}
			}
		})
	}
}

// checkPart checks what came of a cut stream against what came of the whole.
func checkPart(t *testing.T, part, whole heard) {
	t.Helper()
	m, all := part.answer.Message, whole.answer.Message
	if !strings.HasPrefix(all.Text(), m.Text()) || !strings.HasPrefix(all.Thinking, m.Thinking) {
		t.Errorf("got text %q, thinking %q; want the beginnings of %q, %q", m.Text(), m.Thinking, all.Text(), all.Thinking)
	}
	if m.Signature != "" && (m.Signature != all.Signature || m.Thinking != all.Thinking) {
		t.Errorf("got thinking %q signed %q, want %q signed %q", m.Thinking, m.Signature, all.Thinking, all.Signature)
	}
	got, want := m.Calls(), all.Calls()
	if len(got) > len(want) || !cmp.Equal(got, slices.Clone(want[:len(got)])) && len(got) > 0 {
		t.Errorf("got calls %v, want the first of %v", got, want)
	}
	if u, v := part.answer.Usage, whole.answer.Usage; u.InputTokens > v.InputTokens || u.OutputTokens > v.OutputTokens || u.CachedTokens > v.CachedTokens {
		t.Errorf("got usage %+v, want at most %+v", u, v)
	}
	if part.err == nil {
		if diff := cmp.Diff(whole.answer, part.answer, cmpopts.IgnoreFields(perdure.ProviderState{}, "Family")); diff != "" {
			t.Errorf("the answer has an end and is not the whole (-whole +got):\n%s", diff)
		}
		return
	}
	var failure *model.Error
	if !errors.As(part.err, &failure) || failure.Code != model.Unavailable {
		t.Errorf("got %v, want %s", part.err, model.Unavailable)
	}
	if part.answer.Finish != "" {
		t.Errorf("got finish %q beside %v", part.answer.Finish, part.err)
	}
}

// FuzzStream: no bytes make the adapter panic, yield half a character or a call that does not
// parse, go on behind an end, or end without a word.
func FuzzStream(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(r.bytes)
		f.Add(r.bytes[:len(r.bytes)*2/3])
	}
	f.Add([]byte("event: content_block_delta\ndata: {\"index\":3,\"type\":\"content_block_delta\"}\n\n"))
	f.Add([]byte("event: error\ndata: no JSON\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := adapter(t, anthropic.Config{Name: "claude-test", BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: replay{bytes: stream}}})
		checkStream(t, m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("Hello")}}))
	})
}
