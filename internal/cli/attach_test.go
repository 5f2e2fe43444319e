package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// endless is a task that runs until it is canceled. It may be read concurrently.
type endless struct {
	Engine
	mu       sync.Mutex
	task     perdure.Task
	sent     []perdure.TaskMessage
	onSend   func(perdure.TaskMessage) // called after a message was sent; nil: nothing is done
	canceled int
}

func (e *endless) Close() error { return nil }

func (e *endless) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// endlessTasks implements engine.Tasks for endless.
type endlessTasks struct {
	engine.Tasks
	*endless
}

// Tasks implements engine.Engine.
func (e *endless) Tasks() engine.Tasks { return endlessTasks{nil, e} }

func (e endlessTasks) List(context.Context, perdure.SessionID) ([]perdure.Task, error) {
	t, err := e.Get(context.Background(), "")
	return []perdure.Task{t}, err
}

func (e endlessTasks) Get(context.Context, perdure.TaskID) (perdure.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.task, nil
}

func (e endlessTasks) Log(_ context.Context, _ perdure.TaskID, offset int64, _ int) (engine.Log, error) {
	const text = "ready\n"
	log := engine.Log{Offset: offset, Next: int64(len(text)), End: int64(len(text))}
	if offset == 0 {
		log.Chunks = []engine.Chunk{{Bytes: []byte(text)}}
	}
	return log, nil
}

func (e endlessTasks) Send(_ context.Context, _ perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	e.mu.Lock()
	m.ID, m.Direction = perdure.TaskMessageID(fmt.Sprintf("tmsg_%d", len(e.sent)+1)), perdure.Inbound
	e.sent = append(e.sent, m)
	e.mu.Unlock()
	if e.onSend != nil {
		e.onSend(m)
	}
	return m.ID, nil
}

func (e endlessTasks) Messages(_ context.Context, _ perdure.TaskID, after perdure.TaskMessageID, _ int) ([]perdure.TaskMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := 1 + slices.IndexFunc(e.sent, func(m perdure.TaskMessage) bool { return m.ID == after })
	return slices.Clone(e.sent[next:]), nil
}

func (e endlessTasks) Wait(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return e.Get(ctx, id)
}

func (e endlessTasks) Cancel(context.Context, perdure.TaskID, string, string) (perdure.CancelReceipt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.canceled++
	e.task.State = perdure.TaskCanceled
	return perdure.CancelReceipt{}, nil
}

// asksFirst is a stdin that presses Ctrl-C, and types its content when it is read.
type asksFirst struct {
	io.Reader
	once   sync.Once
	signal chan<- os.Signal
	asked  chan struct{}
}

func (s *asksFirst) Read(p []byte) (int, error) {
	s.once.Do(func() {
		s.signal <- os.Interrupt
		<-s.asked
	})
	return s.Reader.Read(p[:1])
}

// TestC07Attach checks that detaching does not affect a task, and that only an explicit cancel ends
// it.
func TestC07Attach(t *testing.T) {
	t.Parallel()
	keys := func() (func() error, error) { return func() error { return nil }, nil }
	none := func() (func() error, error) { return nil, errors.New("no stty") }
	terminal := Terminal{Stdin: true, Stderr: true}
	for _, test := range []struct {
		name     string
		keys     func() (func() error, error)
		ctrlC    bool
		typed    string
		sent     []string
		canceled int
	}{
		{"the keys leave it", keys, false, "hi\x7fo\rthere\n\x10\x11", []string{"ho", "there"}, 0},
		{"a Ctrl-Q alone is no word", keys, false, "a\x11b\n\x10\x11", []string{"ab"}, 0},
		{"a line can be cleared, and the end of input leaves", keys, false, "oops\x15fine\n\x04", []string{"fine"}, 0},
		{"arrows and their like are no text", keys, false, "a\x1b[Ab\x1b[1;5Cc\x1bOHd\x1bxe\x1b[3~f\n\x1b\x1b[Bg\n\x1b[\rh\n\x10\x11", []string{"abcdef", "g", "h"}, 0},
		{"what is wide goes whole", keys, false, "世界\x7fe\u0301\xe4\x7f!\n\x10\x11", []string{"世e\u0301!"}, 0},
		{"Ctrl-C asks, and nothing is said", keys, true, "\n", nil, 0},
		{"Ctrl-C asks, and something is said", keys, true, "what?\n", nil, 0},
		{"Ctrl-C asks, and the end is meant", keys, true, "c\n", nil, 1},
		{"or in words, line by line", none, true, "cancel\n", nil, 1},
		{"the input ends with the question", none, true, "", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eng := &endless{task: perdure.Task{ID: "task_1", State: perdure.TaskRunning}}
			signals := make(chan os.Signal) // unbuffered: the key is pressed only when the previous signal was received
			var typed io.Reader = strings.NewReader(test.typed)
			asked := make(chan struct{})
			if test.ctrlC {
				typed = &asksFirst{Reader: typed, signal: signals, asked: asked}
			}
			hear := func(said string) {
				if strings.Contains(said, "[D/c]") {
					close(asked)
				}
			}

			code, _, talk := command{args: "attach task_1", engine: eng, terminal: terminal, keys: test.keys, typed: typed, signals: signals, hear: hear}.run(t.Context())

			var sent []string
			for _, m := range eng.sent {
				sent = append(sent, m.Text)
			}
			if diff := cmp.Diff(sent, test.sent); diff != "" || code != exitOK || eng.canceled != test.canceled {
				t.Errorf("exit code %d, %d canceled, sent (-got +want):\n%s%s", code, eng.canceled, diff, talk)
			}
			if test.ctrlC && !strings.Contains(talk, "[D/c]") {
				t.Errorf("nobody was asked: %s", talk)
			}
			if test.canceled == 0 && !strings.Contains(talk, "detached from task_1, which continues; attach again with: perdure attach task_1") {
				t.Errorf("does not say how to come back: %s", talk)
			}
		})
	}

	t.Run("what is typed answers its question", func(t *testing.T) {
		t.Parallel()
		eng := &endless{task: perdure.Task{ID: "task_1", State: perdure.TaskAwaitingInput, InputRequest: &perdure.InputRequest{ID: "inp_1", Prompt: "which one?"}}}
		code, out, talk := command{args: "attach task_1", engine: eng, terminal: terminal, keys: keys, stdin: "both\n\x10\x11"}.run(t.Context())
		if code != exitOK || len(eng.sent) != 1 || eng.sent[0].InReplyTo != "inp_1" || eng.sent[0].Text != "both" {
			t.Errorf("exit code %d, %q, %+v: %s", code, out, eng.sent, talk)
		}
	})
}

// TestC07Echo checks that input is echoed and erased by its width in columns, and that pasted text
// cannot control the terminal.
func TestC07Echo(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"ab\x7f": "ab\b \b", "世\x7f": "世\b \b\b \b", "e\u0301\x7f": "e\u0301", "世a\x15": "世a\b \b\b \b\b \b", "\x7f\x15": "", "\xe4\x7f": "",
		"a\u009b2J\u202eb": "a2Jb", "\x1b[2J": "", "a\x1b[A\n": "a\n",
	} {
		var shown bytes.Buffer
		k := lineEditor{echo: &shown}
		for _, b := range []byte(typed) {
			k.press(b)
		}
		if shown.String() != want {
			t.Errorf("%q is shown as %q, want %q", typed, shown.String(), want)
		}
	}
}

// TestC03Attach checks that attach uses the terminal's own line editing where the cursor cannot be
// moved: on a dumb terminal, and with redirected output.
func TestC03Attach(t *testing.T) {
	t.Parallel()
	keys := func() (func() error, error) {
		t.Error("the keys come one by one")
		return func() error { return nil }, nil
	}
	for name, c := range map[string]command{
		"dumb":   {terminal: Terminal{Stdin: true, Stdout: true, Stderr: true}, env: map[string]string{"TERM": "dumb"}},
		"stderr": {terminal: Terminal{Stdin: true, Stdout: true}},
	} {
		eng := &endless{task: perdure.Task{ID: "task_1", State: perdure.TaskRunning}}
		signals := make(chan os.Signal)
		asked := make(chan struct{})
		c.args, c.engine, c.keys, c.signals = "attach task_1", eng, keys, signals
		c.typed = io.MultiReader(strings.NewReader("ho\n"), &asksFirst{Reader: strings.NewReader("\n"), signal: signals, asked: asked})
		c.hear = func(said string) {
			if strings.Contains(said, "[D/c]") {
				close(asked)
			}
		}
		code, _, talk := c.run(t.Context())
		if code != exitOK || len(eng.sent) != 1 || strings.ContainsAny(talk, "\b\r") || !strings.Contains(talk, "detach with Ctrl-C") {
			t.Errorf("%s: exit code %d, %+v: %q", name, code, eng.sent, talk)
		}
	}
}

// TestU6Senders: two people are attached to one task. Each sees what the other sends, with the name
// of the sender, and not what was sent before or by themselves.
func TestU6Senders(t *testing.T) {
	t.Parallel()
	keys := func() (func() error, error) { return func() error { return nil }, nil }
	eng := &endless{task: perdure.Task{ID: "task_1", State: perdure.TaskRunning}}
	send := func(by, text string) {
		if _, err := eng.Tasks().Send(t.Context(), "task_1", perdure.TaskMessage{By: by, Text: text}); err != nil {
			t.Error(err)
		}
	}
	send("carol", "before anybody came")
	typed, types := io.Pipe()
	press := func(keys string) {
		if _, err := io.WriteString(types, keys); err != nil {
			t.Error(err)
		}
	}
	var group sync.WaitGroup
	eng.onSend = func(m perdure.TaskMessage) {
		if m.Text == "mine" {
			send("alice", "leave out\nthe drafts\x1b[2J")
		}
	}
	begin := sync.OnceFunc(func() { group.Go(func() { press("mine\n") }) })
	leave := sync.OnceFunc(func() { group.Go(func() { press("\x10\x11") }) })
	hear := func(said string) {
		switch {
		case strings.Contains(said, "attached to task_1"):
			begin()
		case strings.Contains(said, "alice sent: "):
			leave()
		}
	}

	code, _, talk := command{args: "attach task_1", engine: eng, terminal: Terminal{Stdin: true, Stderr: true}, keys: keys, typed: typed, hear: hear}.run(t.Context())

	group.Wait()
	if code != exitOK || len(eng.sent) != 3 || strings.Count(talk, " sent: ") != 1 ||
		!strings.Contains(talk, "alice sent: leave out the drafts") || strings.Contains(talk, "\x1b[2J") {
		t.Errorf("exit code %d, sent %+v: %q", code, eng.sent, talk)
	}
}
