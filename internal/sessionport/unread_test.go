package sessionport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// silent is a store whose secrets of a session cannot be read a number of times.
type silent struct {
	store.Store
	times *atomic.Int64
}

func (s silent) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return fn(silentReader{r, s.times}) })
}

type silentReader struct {
	store.Reader
	times *atomic.Int64
}

// silentReaderSecrets overrides a part of one noun.
type silentReaderSecrets struct {
	store.SecretReader
	silentReader
}

func (s silentReader) Secrets() store.SecretReader { return silentReaderSecrets{s.Reader.Secrets(), s} }

func (s silentReaderSecrets) List(f store.SecretFilter) ([]store.Secret, error) {
	if s.times.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: away", perdure.Unavailable)
	}
	return s.SecretReader.List(f)
}

const paidFor = "steps: [{text: The whole long answer that somebody paid for.}, {text: The same once more., repeat: true}]"

// TestModelsWaitForSecrets: no model request is made while the secrets cannot be read, and then the
// turn continues.
func TestModelsWaitForSecrets(t *testing.T) {
	t.Parallel()
	h := newHushed(t, paidFor)
	var times atomic.Int64
	times.Store(3)
	h.over = func(s store.Store) store.Store { return silent{s, &times} }
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	h.say(s, "go")

	var told []string
	for _, e := range h.events(s) {
		switch f := e.Fact.(type) {
		case perdure.OutputCompleted:
			told = append(told, f.Message.Text())
		case perdure.ReasonCompleted:
			told = append(told, fmt.Sprint(f.Success))
		}
	}
	if got := strings.Join(told, "|"); got != "The whole long answer that somebody paid for.|true" || times.Load() >= 0 {
		t.Errorf("got %q", got)
	}
}

// TestWhoWaitsForSecretsCanBeStopped: a turn that waits for the secrets to be readable can be
// interrupted.
func TestWhoWaitsForSecretsCanBeStopped(t *testing.T) {
	t.Parallel()
	h := newHushed(t, paidFor)
	var times atomic.Int64
	times.Store(1 << 40)
	h.over = func(s store.Store) store.Store { return silent{s, &times} }
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(h.ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
			if f.Event == nil || f.Event.Type() != "reason.started" {
				return nil
			}
			return h.eng.Sessions().Interrupt(h.ctx, s.ID, "user", "enough")
		})
	}()

	h.say(s, "go")
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	ended := ""
	for _, e := range h.events(s) {
		switch f := e.Fact.(type) {
		case perdure.OutputCompleted:
			ended += fmt.Sprintf("%q", f.Message.Text())
		case perdure.ReasonCompleted:
			ended += f.Code
		}
	}
	if ended != `""interrupted` {
		t.Errorf("it ended with %s", ended)
	}
}

// foreign writes a secret of a session whose key is missing here.
func foreign(ctx context.Context, st store.Store, id perdure.SessionID, ring *secret.Keyring) error {
	row := store.Secret{Session: id, Name: "foreign", Version: 1}
	var err error
	if row.Sealed, err = ring.Seal(secret.Place{Session: id, Name: row.Name, Version: row.Version}, []byte(leaked)); err != nil {
		return err
	}
	if row.KeyID, err = secret.KeyID(row.Sealed); err != nil {
		return err
	}
	return st.InTx(ctx, func(tx store.Tx) error { return tx.Secrets().Put(row) })
}

// TestAnswersWithUnreadableSecrets: an answer that arrives while a secret of the session cannot be
// opened is recorded nowhere, since it may contain the secret. The step fails, the shown text is
// withdrawn, and the turn continues once the secret can be opened, or is gone.
func TestAnswersWithUnreadableSecrets(t *testing.T) {
	t.Parallel()
	ring, err := secret.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	h := newHushed(t, "rules: [{when: {attempt: 1}, text: The word is "+leaked+" I think.}]\nsteps: [{text: It is none., repeat: true}]")
	var id atomic.Value
	var once atomic.Bool
	h.cfg = func(cfg *local.Config) {
		cfg.Policies.Guards = []local.Guard{{Name: "writer", Check: func(string) (string, bool) {
			if once.CompareAndSwap(false, true) {
				if err := foreign(h.ctx, h.st, id.Load().(perdure.SessionID), ring); err != nil {
					t.Error(err)
				}
			}
			return "", false
		}}}
	}
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	id.Store(s.ID)
	watching, stop := context.WithCancel(h.ctx)
	watched := make(chan error, 1)
	go func() { // the key arrives after the first failure
		watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
			if f.Event == nil {
				return nil
			}
			if failed, ok := f.Event.Fact.(perdure.ReasonCompleted); !ok || failed.Success {
				return nil
			}
			return h.st.InTx(h.ctx, func(tx store.Tx) error { _, err := tx.Secrets().Remove(s.ID, "foreign"); return err })
		})
	}()

	h.say(s, "go")
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	var told []string
	bills := 0
	for _, e := range h.events(s) {
		switch f := e.Fact.(type) {
		case perdure.OutputReplaced:
			told = append(told, "replaced")
		case perdure.OutputCompleted:
			told = append(told, f.Message.Text())
		case perdure.ReasonCompleted:
			told = append(told, f.Code+f.TextPreview)
		case perdure.Generation:
			bills++
		case perdure.TurnFailed:
			t.Errorf("the turn failed: %+v", f)
		}
	}
	if got := strings.Join(told, "|"); got != "replaced|provider_unavailable|It is none.|It is none." || bills != 2 {
		t.Errorf("got %q with %d bills", got, bills)
	}
	text, err := json.Marshal(h.events(s))
	if err != nil || strings.Contains(string(text), leaked) || strings.Contains(string(text), "unprintable") {
		t.Errorf("the journal says %s, %v", text, err)
	}
}

// TestKnownSaysWhatItDoesNotKnow tests Readable: if the store was never readable, and while a key
// is missing.
func TestKnownSaysWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	l := newLocked(t)
	known := l.process()(l.one, tool.Call{Session: l.one}).SecretMasker
	if err := known.Complete(); err != nil {
		t.Error(err)
	}
	ring, err := secret.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	if err := foreign(t.Context(), l.st, l.one, ring); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := known.Complete(); !errors.Is(err, perdure.NotFound) {
			t.Errorf("without the key: %v", err)
		}
	}
	if there, err := l.ports(l.one).Secrets.RemoveSecret(t.Context(), "foreign"); err != nil || !there {
		t.Error(there, err)
	}
	if err := known.Complete(); err != nil {
		t.Errorf("without the secret: %v", err)
	}
	if err := l.st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := known.Complete(); err != nil {
		t.Errorf("what is held stands: %v", err)
	}
	if err := l.process()(l.one, tool.Call{Session: l.one}).SecretMasker.Complete(); err == nil {
		t.Error("without a store nothing is known")
	}
}
