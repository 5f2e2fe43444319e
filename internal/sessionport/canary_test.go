package sessionport_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/session"
)

// canaries creates secrets that are found even if only a part of one leaks: each starts and ends
// with a random word.
type canaries struct{ first, last string }

func newCanaries() canaries {
	var raw [12]byte
	rand.Read(raw[:]) // never fails
	return canaries{first: "cnr" + hex.EncodeToString(raw[:6]), last: "yrn" + hex.EncodeToString(raw[6:])}
}

// secret is the nth one, in one of three shapes.
func (c canaries) secret(n int) string {
	middle := []string{"-%04d-", ` %04d/"\u00fc"+&=<%%>\`, "\n%04d\t'$(x)'\n"}[n%3]
	return c.first + fmt.Sprintf(middle, n) + c.last
}

// forms are the words in every form in which they could leak.
func (c canaries) forms() map[string][]byte {
	found := map[string][]byte{}
	for _, word := range []string{c.first, c.last} {
		found["plain "+word] = []byte(word)
		found["hex "+word] = []byte(hex.EncodeToString([]byte(word)))
		found["HEX "+word] = []byte(strings.ToUpper(hex.EncodeToString([]byte(word))))
		for before := range 3 {
			code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + word))
			code = strings.TrimRight(code, "=")
			found[fmt.Sprintf("base64+%d %s", before, word)] = []byte(code[(before*8+5)/6 : (before+len(word))*8/6])
		}
	}
	return found
}

// search fails if a form is in a text.
func (c canaries) search(t *testing.T, where string, text []byte) {
	t.Helper()
	for name, form := range c.forms() {
		if at := bytes.Index(text, form); at >= 0 {
			t.Errorf("%s has %s: %.200q", where, name, text[max(0, at-80):])
		}
	}
}

// searchDir searches every file of a directory, and returns the number of bytes.
func (c canaries) searchDir(t *testing.T, dir string) (size int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		size += len(text)
		c.search(t, filepath.Base(path), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// echo writes a secret in all its forms.
func echo(value string) string {
	quoted, _ := json.Marshal(value) // a string always encodes
	raw := []byte(value)
	return strings.Join([]string{
		value, string(quoted), url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
		base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString([]byte("user:" + value)), strconv.Quote(value),
	}, " | ")
}

// leak is a tool that has a secret and outputs it wherever it can, in small pieces too.
func leak() tool.Tool {
	type in struct {
		Name string `json:"name"`
		Kind int    `json:"kind"`
	}
	spec := tool.Spec{Name: "leak", Description: "Tells a secret.", Class: perdure.Idempotent, NeedsEnv: true, Narration: tool.Narration{
		Started: "Leaking {name}", Completed: "Leaked {name}[: {result.text}]", Failed: "Could not leak {name}"}}
	return tool.NewBackground(spec, func(ctx context.Context, in in, env tool.Env) (tool.Result, error) {
		value, err := env.Secrets.Reveal(ctx, in.Name)
		if err != nil {
			return tool.Result{}, err
		}
		all := echo(value)
		for i := 0; i < len(all); i += 7 {
			env.Sink.Output([]string{"stdout", "stderr"}[in.Kind%2], []byte(all[i:min(i+7, len(all))]))
		}
		env.Sink.Status("with " + value)
		env.Sink.Progress(1, 2, value)
		tool.ReportProgress(env.Sink, perdure.Progress{Unit: value, Label: all})
		if err := env.Events.Emit(ctx, "leaked", map[string]any{value: all}); err != nil {
			return tool.Result{}, err
		}
		told := map[string]any{"text": all, value: 1}
		switch in.Kind % 5 {
		case 0:
			return tool.Failf("refused: %s", all).WithMetadata(told), nil
		case 1:
			return tool.Internal(errors.New(all)), nil
		case 2:
			return tool.Success(map[string]any{"text": all, value: 1}).WithRaw(strings.Repeat(all+"\n", 20)).WithMetadata(told), nil
		case 3:
			panic(all)
		}
		return tool.Success(all).WithMetadata(told), nil
	})
}

// canaryScript stores n secrets, then outputs each in the foreground, and every tenth in the
// background too.
func canaryScript(c canaries, n int) string {
	type call map[string]any
	var steps []any
	for from := 0; from < n; from += 20 {
		var sets, leaks []any
		for i := from; i < min(from+20, n); i++ {
			name := fmt.Sprint("name ", i)
			sets = append(sets, call{"name": "secret_store", "args": call{"operation": "set", "name": name, "value": c.secret(i)}})
			leaks = append(leaks, call{"name": "leak", "args": call{"name": name, "kind": i}})
			if i%10 == 0 {
				leaks = append(leaks, call{"name": "spawn_background", "args": call{"tool": "leak", "args": call{"name": name, "kind": i / 10}}})
			}
			if i%50 == 1 { // arguments that the model got wrong
				sets = append(sets, call{"name": "secret_store", "args": call{"operation": "set", "name": name, "secret": c.secret(i)}},
					call{"name": "spawn_background", "args": call{"tool": "secret_store", "args": call{"operation": "set", "name": name, "value": c.secret(i)}}})
			}
		}
		steps = append(steps, call{"text": "I keep " + c.secret(from) + " now", "calls": sets}, call{"calls": leaks})
	}
	steps = append(steps, call{"calls": []any{call{"name": "secret_store", "args": call{"operation": "list"}}, call{"name": "secret_store", "args": call{"operation": "get", "name": "name 0"}}}})
	steps = append(steps, call{"text": "done", "repeat": true})
	text, _ := json.Marshal(map[string]any{"steps": steps}) // JSON is YAML
	return string(text)
}

// TestS18Canaries is S18: secrets that pass through the real engine are in no file of its data
// directory, event, frame, file of the session or log line, in no form.
func TestS18Canaries(t *testing.T) {
	t.Parallel()
	findCanaries(t, 30)
}

// findCanaries runs n secrets, at most 1000.
func findCanaries(t *testing.T, n int) {
	t.Helper()
	c := newCanaries()
	h := newHushed(t, canaryScript(c, n))
	var frames bytes.Buffer
	var mu sync.Mutex
	watching, stop := context.WithCancel(h.ctx)
	watched := make(chan error, 1)

	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{DisableBackground: false})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
			if f.Type == "output.message.delta" {
				return nil // live text of the model itself
			}
			text, err := json.Marshal(f)
			mu.Lock()
			defer mu.Unlock()
			frames.Write(text)
			return err
		})
	}()
	h.say(s, "go")
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	events := h.events(s)
	text, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, "the journal", text)
	mu.Lock()
	c.search(t, "a frame", frames.Bytes())
	mu.Unlock()
	if size := c.searchDir(t, h.dir); size < 10_000 {
		t.Errorf("%d bytes were searched", size)
	}
	h.stop()
	c.searchDir(t, h.dir)
	c.search(t, "the log", []byte(h.log.String()))

	kept, told, ended := 0, 0, 0
	for _, e := range events {
		switch f := e.Fact.(type) {
		case perdure.ToolCompleted:
			if f.Name == "secret_store" && !f.Result.IsError() {
				kept++
			}
			if f.Name == "leak" {
				told++
			}
		case perdure.TaskUpdated:
			if f.Task.State.Terminal() {
				ended++
			}
		}
	}
	if kept != n+2 || told != n || ended < n/10 {
		t.Errorf("%d secrets were stored, %d output in the foreground and %d in the background, want %d, %d and %d", kept, told, ended, n+2, n, n/10)
	}
	if marks := bytes.Count(text, []byte("redacted")); marks < 3*n {
		t.Errorf("%d marks for %d secrets", marks, n)
	}
}

// TestCanaryFinds tests the search: each form that a tool can output is found.
func TestCanaryFinds(t *testing.T) {
	t.Parallel()
	c := newCanaries()
	for i := range 3 {
		for _, part := range strings.Split(echo(c.secret(i)), " | ") {
			found := false
			for _, form := range c.forms() {
				found = found || strings.Contains(part, string(form))
			}
			if !found {
				t.Errorf("%q is not found", part)
			}
		}
	}
}

// hushed is an engine with a keyring over a store on disk.
type hushed struct {
	*testing.T
	ctx   context.Context
	dir   string
	keys  *secret.Keyring
	model *scripted.Model
	st    *sqlite.Store
	eng   *local.Engine
	log   *lockedBuffer
	cfg   func(*local.Config)
	over  func(store.Store) store.Store // between engine and store; nil: nothing

	end   context.CancelFunc
	ended chan error
}

// lockedBuffer is a log with concurrent writers.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds to the log.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the log.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newHushed(t *testing.T, script string) *hushed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	m, err := scripted.Parse("canaries", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	h := &hushed{T: t, ctx: ctx, dir: t.TempDir(), keys: keys, model: m, log: &lockedBuffer{}}
	t.Cleanup(h.stop)
	return h
}

// start runs an engine over the store.
func (h *hushed) start(more ...tool.Tool) {
	h.Helper()
	known := redact.NewSet()
	shown, err := redact.New(redact.Config{Known: known})
	if err != nil {
		h.Fatal(err)
	}
	if h.st, err = sqlite.Open(h.ctx, sqlite.Config{Dir: h.dir}); err != nil {
		h.Fatal(err)
	}
	tools := append(session.StorageTools(), leak())
	tools = append(append(tools, background.Tools(background.Config{})...), more...)
	cfg := local.Config{
		Store: h.st, Model: h.model, Tools: tool.NewRegistry(tools...),
		Limits:  local.Limits{DeferAbove: -1, SlotsPerSession: -1},
		Storage: local.Storage{Secrets: local.Secrets{Keys: h.keys, Known: known}},
		Log:     slog.New(redact.Logs(slog.NewJSONHandler(h.log, nil), shown)),
	}
	if h.cfg != nil {
		h.cfg(&cfg)
	}
	if h.over != nil {
		cfg.Store = h.over(h.st)
	}
	if h.eng, err = local.Open(h.ctx, cfg); err != nil {
		h.Fatal(err)
	}
	ctx, end := context.WithCancel(h.ctx)
	h.end, h.ended = end, make(chan error, 1)
	go func(eng *local.Engine, ended chan error) { ended <- eng.Run(ctx) }(h.eng, h.ended)
}

// stop ends the engine and closes the store.
func (h *hushed) stop() {
	h.Helper()
	if h.end == nil {
		return
	}
	h.end()
	if err := <-h.ended; err != nil && !errors.Is(err, context.Canceled) {
		h.Error(err)
	}
	h.end = nil
	if err := h.st.Close(); err != nil {
		h.Error(err)
	}
}

// say sends a message and waits for the end of all that follows.
func (h *hushed) say(s engine.Session, text string) {
	h.Helper()
	if _, err := h.eng.Send(h.ctx, s.ID, perdure.Text(text)); err != nil {
		h.Fatal(err)
	}
	if err := h.eng.Sessions().WaitIdle(h.ctx, s.ID); err != nil {
		h.Fatal(err)
	}
	for {
		tasks, err := h.eng.Tasks().List(h.ctx, s.ID)
		if err != nil {
			h.Fatal(err)
		}
		live := 0
		for _, task := range tasks {
			if task.State.Live() {
				live++
			}
		}
		if live == 0 {
			break
		}
		if err := h.eng.Sessions().WaitIdle(h.ctx, s.ID); err != nil {
			h.Fatal(err)
		}
	}
	if err := h.eng.Sessions().WaitIdle(h.ctx, s.ID); err != nil {
		h.Fatal(err)
	}
}

func (h *hushed) events(s engine.Session) []perdure.Event {
	h.Helper()
	events, err := h.eng.Events(h.ctx, s.ID, 0, 0)
	if err != nil {
		h.Fatal(err)
	}
	return events
}

// result returns how a tool's last call ended.
func (h *hushed) result(s engine.Session, name string) (r perdure.ToolResult) {
	h.Helper()
	for _, e := range h.events(s) {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok && f.Name == name {
			r = f.Result
		}
	}
	return r
}
