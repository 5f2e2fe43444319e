package generation

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

// checkpoint stores the text of a streaming message so far, outside the commits of the turn. An
// error of the store is logged, and the response continues without the checkpoint.
type checkpoint struct {
	put   func(text string) error
	told  func(kept int) // called after each put
	lost  func(err error)
	bytes int           // of new text before it is stored
	after time.Duration // since the first new text before it is stored

	mu      sync.Mutex // guards the fields below; held while the store writes, so that nothing is written after end
	text    strings.Builder
	fresh   int // bytes of text that are not stored yet
	timer   *time.Timer
	written bool // the store may have a checkpoint
	ended   bool
}

// add appends new text.
func (c *checkpoint) add(text string) {
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(text)
	c.fresh += len(text)
	switch {
	case c.fresh >= c.bytes:
		c.save()
	case c.timer == nil:
		c.timer = time.AfterFunc(c.after, c.due)
	}
}

// due stores text that is old enough.
func (c *checkpoint) due() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.save()
}

// save stores the text. The caller holds mu.
func (c *checkpoint) save() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if c.ended || c.fresh == 0 || strings.TrimSpace(c.text.String()) == "" {
		return
	}
	c.fresh, c.written = 0, true
	if err := c.put(c.text.String()); err != nil {
		c.lost(err)
		c.ended = errors.Is(err, perdure.Lost)
		return
	}
	c.told(c.text.Len())
}

// end stops the writes, and reports whether the store may have a checkpoint.
func (c *checkpoint) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.written
}

// checkpointOf returns the checkpoint of the message of a model call, starting with the text that
// is stored already. told is called with the number of bytes that the store has.
func (g *Generator) checkpointOf(q ModelCall, kept storedText, told func(kept int)) *checkpoint {
	p := store.Partial{Session: q.Session.ID, Message: q.Command.Message}
	c := &checkpoint{told: told, bytes: g.core.Limits.CheckpointBytes, after: g.core.Timing.Checkpoint, written: kept.found}
	c.text.WriteString(kept.text)
	c.put = func(text string) error {
		p.Text = text
		// Not ctx: an abandoned write could arrive after the commit that removes the checkpoint.
		return g.core.Work.InTx(context.Background(), func(tx store.Tx) error {
			if _, err := tx.Sessions().Lock(p.Session, q.Epoch); err != nil { // the next driver's checkpoint is newer
				return err
			}
			return tx.Journal().PutPartial(p)
		})
	}
	c.lost = func(err error) {
		g.core.Log.Warn("checkpoint not stored", "session", p.Session, "message", p.Message, "error", err)
	}
	return c
}

// storedText is what the store has of an open message.
type storedText struct {
	text  string // not blank; empty: nothing
	found bool   // there is a checkpoint to remove

	unread bool // a secret of the session cannot be decrypted
}

// prefix returns the text from which a model continues. Providers refuse trailing white space.
func (k storedText) prefix() string { return strings.TrimRightFunc(k.text, unicode.IsSpace) }

// answer returns the text as an interrupted response.
func (k storedText) answer() model.Answer {
	message := perdure.Message{Role: perdure.RoleAgent, Interrupted: true}
	if k.text != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: k.text}}
	}
	return model.Answer{Message: message}
}

// loadStoredText reads the checkpoint of the message of a model call, if there can be one, and
// retries until it succeeds: without the stored text the model would write the same text twice. It
// also waits until the session's secrets can be read, because otherwise the response could not be
// recorded. Not ok: the engine is stopping.
func (g *Generator) loadStoredText(ctx context.Context, q ModelCall) (k storedText, ok bool) {
	for n := 1; ; n++ {
		err := g.readStoredText(ctx, q, &k)
		what := "checkpoint not read"
		if err == nil && (k.text != "" || !q.Command.Stop) {
			what, err = "model call delayed: session secrets not readable", g.secretsUnreadable(q.Session.ID)
			if errors.Is(err, perdure.NotFound) {
				k.unread = true
				return k, true // waiting does not bring a missing key back: the step fails with that error
			}
		}
		if err == nil {
			return k, true
		}
		g.core.Log.Warn(what, "session", q.Session.ID, "message", q.Command.Message, "error", err)
		if !core.Wait(ctx, perdure.RetryDelay(min(n, 5), 0, string(q.Command.Exec))/10) {
			// A person interrupted the turn: it ends, with or without the text.
			return k, perdure.CauseOf(ctx) == perdure.CauseInterrupt
		}
	}
}

// readStoredText reads the checkpoint once.
func (g *Generator) readStoredText(ctx context.Context, q ModelCall, k *storedText) error {
	if !q.Resumed && q.Command.Attempt <= 1 {
		return nil // the message is new, and no model was called for it
	}
	var p store.Partial
	err := g.core.Store.View(context.WithoutCancel(ctx), func(r store.Reader) (err error) {
		p, err = r.Journal().Partial(q.Session.ID, q.Command.Message)
		return err
	})
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	if k.found = err == nil; strings.TrimSpace(p.Text) != "" {
		k.text = p.Text
	}
	return nil
}

// recoveryMode returns how to handle a response that was interrupted with text: as its agent's
// policy says, if that is possible. again reports whether the model may be called again for the
// message.
func (g *Generator) recoveryMode(q ModelCall, again bool) perdure.RecoveryMode {
	policy := q.Session.Agent.Recovery
	switch {
	case !again || policy == perdure.RecoverFinalize:
		return perdure.RecoverFinalize
	case policy == perdure.RecoverRestart:
		return perdure.RecoverRestart
	}
	if m, ok := g.core.Model.(model.Prefixer); ok && m.ContinuesFrom(q.Session.Turn.Model) {
		return perdure.RecoverContinue
	}
	return perdure.RecoverFinalize
}

// hasAttempts reports whether the message has attempts left.
func (g *Generator) hasAttempts(c perdure.CallModel) bool {
	attempts := g.core.Limits.ModelAttempts
	if attempts <= 0 {
		attempts = perdure.DefaultModelAttempts
	}
	return c.Attempt < attempts
}
