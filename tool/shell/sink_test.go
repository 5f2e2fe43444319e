package shell

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// noEntry makes TestMain leave out Supervise, as a program that forgot it.
const noEntry = "PERDURE_TEST_NO_ENTRY"

func TestMain(m *testing.M) {
	if os.Getenv(noEntry) == "" {
		Supervise()
	}
	os.Exit(m.Run())
}

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// sink records what a command reports, and signals it.
type sink struct {
	answer perdure.Cause // of every Output

	mu   sync.Mutex
	text map[string]string // guarded by mu: output by stream
	news chan struct{}     // one place: there is something new to look at
}

func newSink() *sink { return &sink{text: map[string]string{}, news: make(chan struct{}, 1)} }

func (s *sink) Output(stream string, delta []byte) perdure.Cause {
	s.mu.Lock()
	s.text[stream] += string(delta)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return s.answer
}

func (s *sink) Status(string) perdure.Cause                     { return "" }
func (s *sink) Progress(float64, float64, string) perdure.Cause { return "" }
func (s *sink) Artifact(perdure.Artifact) perdure.Cause         { return "" }
func (s *sink) Heartbeat() perdure.Cause                        { return "" }

func (s *sink) got(stream string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text[stream]
}

// await returns when the stream contains text.
func (s *sink) await(t *testing.T, stream, text string) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !strings.Contains(s.got(stream), text) {
		select {
		case <-s.news:
		case <-late.C:
			t.Fatalf("no %q on %s within %v, only %q", text, stream, patience, s.got(stream))
		}
	}
}

// bench is a Bash over folders of its own.
type bench struct {
	*Bash
	config Config
}

func newBench(t *testing.T) bench {
	t.Helper()
	c := Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Grace: 2 * time.Second}
	return bench{Bash: newBash(t, c), config: c}
}

func newBash(t *testing.T, c Config) *Bash {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reborn is the same tool in the next runtime: nothing but the folders is left of the first.
func (b bench) reborn(t *testing.T) *Bash {
	t.Helper()
	return newBash(t, b.config)
}

// call is the first execution of a call with these arguments.
func call(args string) tool.Call {
	return tool.Call{Session: "session_1", ID: "call_1", Execution: 1, Tool: "bash", Args: []byte(args)}
}

func command(text string) tool.Call { return call(`{"command":` + quote(text) + `}`) }

// begin runs a command in a goroutine and sends the result to the channel, which has capacity 1.
func begin(ctx context.Context, b *Bash, c tool.Call, s *sink) <-chan tool.Result {
	results := make(chan tool.Result, 1)
	go func() { results <- b.RunBackground(ctx, c, tool.Env{}, s) }()
	return results
}

func wait(t *testing.T, results <-chan tool.Result) tool.Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(patience):
		t.Fatalf("no result within %v", patience)
		return tool.Result{}
	}
}

// wantAnswer compares a result with what the model should read.
func wantAnswer(t *testing.T, r tool.Result, want answer) {
	t.Helper()
	if !r.IsSuccess() {
		t.Fatalf("got error %q (%v), want a result", r.Text, r.Err)
	}
	if diff := cmp.Diff(r.Value, any(want)); diff != "" {
		t.Fatalf("got -, want +:\n%s", diff)
	}
	if r.ExitCode == nil || *r.ExitCode != want.ExitCode {
		t.Fatalf("got exit code %v for the record, want %d", r.ExitCode, want.ExitCode)
	}
}

func wantError(t *testing.T, r tool.Result, kind perdure.ErrorKind, text string) {
	t.Helper()
	if r.Kind != tool.KindToolError || r.ErrorKind != kind || r.Text != text {
		t.Fatalf("got kind %d, %q, %q (%v), want a tool error as %q, %q", r.Kind, r.ErrorKind, r.Text, r.Err, kind, text)
	}
}
