package sessionport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// locked is two sessions with a keyring.
type locked struct {
	*testing.T
	st        *memory.Store
	keys      *secret.Keyring
	open      func(perdure.SessionID, tool.Call) tool.Ports
	one, more perdure.SessionID
}

func newLocked(t *testing.T) *locked {
	t.Helper()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	l := &locked{T: t, st: memory.New(memory.Config{}), keys: keys, one: "session_1", more: "session_2"}
	l.open = l.process()
	l.tx(func(tx store.Tx) error {
		return errors.Join(tx.Sessions().Create(store.Session{ID: l.one, Org: "acme", Status: perdure.SessionStarted}), tx.Sessions().Create(store.Session{ID: l.more, Status: perdure.SessionStarted}))
	})
	return l
}

func (l *locked) tx(fn func(store.Tx) error) {
	l.Helper()
	if err := l.st.InTx(l.Context(), fn); err != nil {
		l.Fatal(err)
	}
}

// process opens the ports in a process of its own.
func (l *locked) process() func(perdure.SessionID, tool.Call) tool.Ports {
	return sessionport.New(l.cfg())
}

func (l *locked) cfg() sessionport.Config {
	return sessionport.Config{Store: l.st, Keys: l.keys}
}

func (l *locked) ports(id perdure.SessionID) tool.Ports {
	return l.open(id, tool.Call{Session: id, ID: "call_1", Tool: "shell"})
}

func (l *locked) set(id perdure.SessionID, name, value string) {
	l.Helper()
	if err := l.ports(id).Secrets.SetSecret(l.Context(), tool.SecretWrite{Name: name, Value: value}); err != nil {
		l.Fatal(err)
	}
}

func (l *locked) row(id perdure.SessionID, name string) (row store.Secret) {
	l.Helper()
	l.tx(func(tx store.Tx) (err error) {
		row, err = tx.Secrets().Get(id, name)
		return err
	})
	return row
}

// TestS19SecretsAtRest swaps, rolls back and damages the stored rows, as an attacker with write
// access to the database could.
func TestS19SecretsAtRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *locked, row *store.Secret)
		want   error
	}{
		"of_another_name":    {func(l *locked, row *store.Secret) { row.Sealed = l.row(l.one, "other").Sealed }, secret.Tampered},
		"of_another_session": {func(l *locked, row *store.Secret) { row.Sealed = l.row(l.more, "name").Sealed }, secret.Tampered},
		"of_the_version_before": {func(l *locked, row *store.Secret) {
			old := row.Sealed
			l.set(l.one, "name", "newer")
			*row = l.row(l.one, "name")
			row.Sealed = old
		}, secret.Tampered},
		"of_one_that_was_removed": {func(l *locked, row *store.Secret) {
			old := row.Sealed
			if _, err := l.ports(l.one).Secrets.RemoveSecret(l.Context(), "name"); err != nil {
				l.Fatal(err)
			}
			l.set(l.one, "name", "newer")
			*row = l.row(l.one, "name")
			row.Sealed = old
		}, secret.Tampered},
		"cut_off":     {func(_ *locked, row *store.Secret) { row.Sealed = row.Sealed[:len(row.Sealed)-1] }, secret.Corrupt},
		"changed":     {func(_ *locked, row *store.Secret) { row.Sealed[len(row.Sealed)/2] ^= 1 }, secret.Corrupt},
		"another_key": {func(l *locked, _ *store.Secret) { l.keys = newLocked(l.T).keys; l.open = l.process() }, secret.UnknownKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocked(t)
			l.set(l.one, "name", "a value")
			l.set(l.one, "other", "another value")
			l.set(l.more, "name", "a value of theirs")
			row := l.row(l.one, "name")
			row.Sealed = bytes.Clone(row.Sealed)
			c.change(l, &row)
			l.tx(func(tx store.Tx) error { _, err := tx.Secrets().Reseal(row, row.KeyID); return err })

			got, err := l.ports(l.one).Secrets.Reveal(t.Context(), "name")

			if !errors.Is(err, c.want) || got != "" {
				t.Errorf("got %q, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestRevealIsAudited wants the journal to have the name and never the value, before the value is
// returned.
func TestRevealIsAudited(t *testing.T) {
	t.Parallel()
	l := newLocked(t)
	l.set(l.one, "name", "correct horse")

	got, err := l.ports(l.one).Secrets.Reveal(t.Context(), "name")

	if err != nil || got != "correct horse" {
		t.Errorf("got %q, %v", got, err)
	}
	var events []perdure.Event
	l.tx(func(tx store.Tx) (err error) {
		events, err = tx.Journal().Events(l.one, 0, 0)
		return err
	})
	f, ok := events[len(events)-1].Fact.(perdure.AuditRecorded)
	if !ok || f.Action != "secret.read" || f.Subject != "name" || f.Purpose != "shell" || !strings.HasPrefix(f.Hash, "sha256:") {
		t.Errorf("the journal says %+v", events)
	}
	if _, err := l.ports(l.more).Secrets.Reveal(t.Context(), "name"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("of another session: %v", err)
	}
}

// TestKnownFollowsTheStore wants a secret to be masked while it exists, whoever wrote it, and in
// its newest version.
func TestKnownFollowsTheStore(t *testing.T) {
	t.Parallel()
	l := newLocked(t)
	mine, theirs := l.ports(l.one), l.process()(l.one, tool.Call{Session: l.one})
	if mine.SecretMasker.Any() {
		t.Error("there is something to mask")
	}
	for i, value := range []string{"correct horse", "battery staple", "tremolo pilot"} {
		if i == 1 { // the name is written again before this process has seen that it was removed
			if _, err := theirs.Secrets.RemoveSecret(t.Context(), "name"); err != nil {
				t.Fatal(err)
			}
		}
		if err := theirs.Secrets.SetSecret(t.Context(), tool.SecretWrite{Name: "name", Value: value}); err != nil {
			t.Fatal(err)
		}
		stream := mine.SecretMasker.Stream()
		out := string(stream.Feed([]byte("say "+value[:5]))) + string(stream.Feed([]byte(value[5:]+"!"))) + string(stream.Flush())
		if got := mine.SecretMasker.Mask(value); got != "<redacted>" || out != "say <redacted>!" || !mine.SecretMasker.Any() {
			t.Errorf("got %q and %q", got, out)
		}
	}
	if got := l.ports(l.more).SecretMasker.Mask("tremolo pilot"); got != "tremolo pilot" {
		t.Errorf("in another session: %q", got)
	}
	if there, err := theirs.Secrets.RemoveSecret(t.Context(), "name"); err != nil || !there {
		t.Error(there, err)
	}
	if got := mine.SecretMasker.Mask("tremolo pilot"); got != "tremolo pilot" {
		t.Errorf("after it was removed: %q", got)
	}
	if err := l.st.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.process()(l.one, tool.Call{Session: l.one}).SecretMasker.Mask("anything"); got != "<unprintable>" {
		t.Errorf("without a store: %q", got)
	}
}

// TestReencrypt is SE2: every secret is sealed under the new key, beside writers, even after an
// interruption; a secret that does not open is named and skipped.
func TestReencrypt(t *testing.T) {
	t.Parallel()
	l := newLocked(t)
	for i := range 250 {
		l.set([]perdure.SessionID{l.one, l.more}[i%2], fmt.Sprint("name ", i), fmt.Sprint("value ", i))
	}
	bad, foreign := l.row(l.one, "name 0"), l.row(l.one, "name 2")
	l.tx(func(tx store.Tx) error {
		other := bad
		other.Sealed = foreign.Sealed
		_, err := tx.Secrets().Reseal(other, bad.KeyID)
		return err
	})
	old, err := l.keys.Current()
	if err != nil {
		t.Fatal(err)
	}
	current, err := l.keys.Rotate()
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	if n, err := sessionport.Reencrypt(ctx, l.cfg(), func(int) { stop() }); !errors.Is(err, context.Canceled) || n == 0 || n > 200 {
		t.Fatalf("stopped after %d: %v", n, err)
	}
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() { l.set(l.one, fmt.Sprint("name ", 2*i+2), fmt.Sprint("new value ", 2*i+2)) })
	}
	_, err = sessionport.Reencrypt(t.Context(), l.cfg(), nil)
	writers.Wait()

	if !errors.Is(err, secret.Tampered) || !strings.Contains(err.Error(), "1 secrets could not be re-encrypted") {
		t.Errorf("got %v", err)
	}
	used, err := sessionport.KeysInUse(t.Context(), l.cfg())
	if err != nil || len(used) != 2 {
		t.Errorf("in use are %v, %v", used, err)
	}
	if there, err := l.ports(l.one).Secrets.RemoveSecret(t.Context(), "name 0"); err != nil || !there {
		t.Error(there, err)
	}
	if n, err := sessionport.Reencrypt(t.Context(), l.cfg(), nil); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
	if used, err = sessionport.KeysInUse(t.Context(), l.cfg()); err != nil || len(used) != 1 || used[0] != current {
		t.Errorf("in use are %v, %v, want %s", used, err, current)
	}
	if gone, err := l.keys.Prune(used, time.Now().Add(time.Second)); err != nil || len(gone) != 1 || gone[0] != old {
		t.Errorf("gone are %v, %v", gone, err)
	}
	for i := 1; i < 250; i++ {
		want := fmt.Sprint("value ", i)
		if i%2 == 0 && i <= 40 {
			want = "new " + want
		}
		got, err := l.ports([]perdure.SessionID{l.one, l.more}[i%2]).Secrets.Reveal(t.Context(), fmt.Sprint("name ", i))
		if err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

const setAndRest = `
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: correct horse}}]
  - calls: [{name: secret_store, args: {operation: get, name: n}}]
  - {text: done, repeat: true}
`

// TestSecretReadNeedsAWord is TL38: the model receives a value only if the policy allows it, or a
// person approves.
func TestSecretReadNeedsAWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says  perdure.Decision
		yes   bool
		shown bool
	}{
		"nobody_minds":    {perdure.Undecided, false, false},
		"policy_allows":   {perdure.Allow, false, true},
		"policy_denies":   {perdure.Deny, false, false},
		"a_person_agrees": {perdure.Ask, true, true},
		"a_person_denies": {perdure.Ask, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHushed(t, setAndRest)
			h.cfg = func(cfg *local.Config) {
				cfg.Policies.Permit = func(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
					if p.Kind == tool.ReadSecret {
						return c.says, "", nil
					}
					return perdure.Undecided, "", nil
				}
			}
			h.start()
			s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			if c.says == perdure.Ask {
				go h.answers(s, c.yes)
			}
			h.say(s, "go")

			got := h.result(s, "secret_store")
			if shown := string(got.Result) == `{"name":"n","value":"correct horse"}`; shown != c.shown {
				t.Errorf("got %s", got.Result)
			}
		})
	}
}

// answers gives a person's answer to the first question.
func (h *hushed) answers(s engine.Session, yes bool) {
	_ = h.st.Watch(h.ctx, s.ID, 0, func(f store.Frame) error {
		if f.Event == nil {
			return nil
		}
		asked, ok := f.Event.Fact.(perdure.ApprovalRequested)
		if !ok {
			return nil
		}
		if _, err := h.eng.Approvals().Decide(h.ctx, asked.Approval.ID, perdure.Verdict{Approve: yes, By: "user"}); err != nil {
			h.Error(err)
		}
		return context.Canceled
	})
}

// mortalStore is a store that dies with its process: from one commit on every operation fails.
type mortalStore struct {
	store.Store
	dies func(store.Tx) bool // evaluated before each commit
	mu   sync.Mutex
	dead bool // guarded by mu
}

// InTx runs a transaction, unless the process is dead by then.
func (m *mortalStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return m.Store.InTx(ctx, func(tx store.Tx) error {
		err := fn(tx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.dead = m.dead || err == nil && m.dies(tx); m.dead {
			return fmt.Errorf("%w: the process is dead", perdure.Storage)
		}
		return err
	})
}

// TestValueIsGoneAfterACrash recovers a call in another process: if the secret was not written, the
// call fails because the value is gone, and never writes another one; if it was, the call succeeds.
func TestValueIsGoneAfterACrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written bool
		want    string
	}{"before_it_was_written": {false, "The value is gone"}, "after_it_was_written": {true, `{"name":"n","set":true}`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHushed(t, setAndRest)
			var id perdure.SessionID
			h.over = func(st store.Store) store.Store {
				return &mortalStore{Store: st, dies: func(tx store.Tx) bool {
					calls, err := tx.Calls().List(store.CallFilter{})
					if err != nil || len(calls) == 0 {
						return false
					}
					_, missing := tx.Secrets().Get(calls[0].Key.Session, "n")
					here := missing == nil
					if c.written {
						return here && calls[0].State != perdure.CallRunning // the settlement is lost
					}
					return here // the secret is lost
				}}
			}
			h.start()
			s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			id = s.ID
			if _, err := h.eng.Send(h.ctx, id, perdure.Text("go")); err != nil {
				t.Fatal(err)
			}
			<-h.ended // the engine stops, since its store is broken
			h.end = nil
			if err := h.st.Close(); err != nil {
				t.Fatal(err)
			}

			h.over = nil
			h.start()
			if err := h.eng.Sessions().WaitIdle(h.ctx, id); err != nil {
				t.Fatal(err)
			}

			var first perdure.ToolResult
			for _, e := range h.events(s) {
				if f, ok := e.Fact.(perdure.ToolCompleted); ok && first.CallID == "" {
					first = f.Result
				}
			}
			if !strings.Contains(string(first.Result)+first.Error, c.want) {
				t.Errorf("got %s %s", first.Result, first.Error)
			}
			var there bool
			err = h.st.View(h.ctx, func(r store.Reader) error {
				_, err := r.Secrets().Get(id, "n")
				there = err == nil
				return nil
			})
			if err != nil || there != c.written {
				t.Errorf("the secret is there: %v, %v", there, err)
			}
		})
	}
}
