package effect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// guardrailError is the error of a stream that a guardrail ended. It reveals nothing of the text.
type guardrailError struct{ guard, replacement string }

func (t *guardrailError) Error() string { return "guardrail " + t.guard + " tripped" }

// checkGuardrails runs the guardrails on a text. Its error is a *trip, of the first guardrail that
// tripped.
func (e *Effects) checkGuardrails(text string) error {
	if text == "" {
		return nil
	}
	for _, g := range e.core.Guardrails {
		if replacement, tripped := g.Check(text); tripped {
			return &guardrailError{guard: g.Name, replacement: replacement}
		}
	}
	return nil
}

// streamRedactor removes the secrets of a session from the text of a response while it streams, so
// that neither live watchers nor a checkpoint contain them. It holds back text that may be the
// start of a secret.
type streamRedactor struct {
	known  tool.SecretMasker // nil: the session has no secrets
	stream tool.StreamMasker // masks known; set with the first text
	shut   bool              // the secrets could not be read: no text is passed on
}

// feed takes new text, and returns the text that may be shown.
func (h *streamRedactor) feed(text string) string {
	if h.known == nil || text == "" {
		return text
	}
	if h.stream == nil && !h.shut {
		h.shut = h.known.Complete() != nil
		h.stream = h.known.Stream()
	}
	if h.shut {
		return ""
	}
	return string(h.stream.Feed([]byte(text)))
}

// flush returns the text that was held back.
func (h *streamRedactor) flush() string {
	if h.stream == nil || h.shut {
		return ""
	}
	return string(h.stream.Flush())
}

// deltaBuffer collects text for live watchers. It publishes added text after at most deltaBatch.
// Safe for concurrent use.
type deltaBuffer struct {
	publish func(offset int, text string)

	mu     sync.Mutex // guards the fields below; held while publishing, to keep the order
	text   strings.Builder
	offset int // bytes of the response before text
	timer  *time.Timer
}

func (b *deltaBuffer) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text == "" {
		return
	}
	if b.text.Len() == 0 {
		b.timer = time.AfterFunc(deltaBatch, b.flush)
	}
	b.text.WriteString(text)
}

func (b *deltaBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishLocked()
}

// markStored publishes how much of the text the store has, so that a follower that missed some of
// it knows where to read it.
func (b *deltaBuffer) markStored(stored int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishLocked() // otherwise followers would miss it
	b.publish(stored, "")
}

// drop discards text that is not published yet.
func (b *deltaBuffer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// publishLocked publishes the collected text. The caller holds mu.
func (b *deltaBuffer) publishLocked() {
	if b.text.Len() == 0 {
		return
	}
	b.timer.Stop()
	b.publish(b.offset, b.text.String())
	b.offset += b.text.Len()
	b.text.Reset()
}

// redacted masks secrets in the text of an incomplete response, as sealed does for a complete one.
func (e *Effects) redacted(s *perdure.Session, a model.Answer) model.Answer {
	text := a.Message.Text()
	if text == "" {
		return a
	}
	for _, v := range e.secrets.In(s, a.Message) {
		text = v.Mask(text)
	}
	var parts []perdure.Part
	if text != redact.Unprintable { // with Unprintable it is not known which part of the text is secret
		parts = append(parts, perdure.Part{Type: perdure.PartText, Text: text})
	}
	for _, part := range a.Message.Parts {
		if part.Type != perdure.PartText {
			parts = append(parts, part)
		}
	}
	a.Message.Parts = parts
	return a
}

// secretsUnreadable returns an error for the step if the secrets of a session cannot be read; nil:
// they can, or there are none.
func (e *Effects) secretsUnreadable(id perdure.SessionID) error {
	known := e.secrets.Known(id)
	if known == nil {
		return nil
	}
	if err := known.Complete(); err != nil {
		return &model.Error{Code: model.Unavailable,
			Text: "the session's secrets cannot be read, so no response can be recorded", Err: err}
	}
	return nil
}

// discardedAnswer returns the outcome of an attempt whose text must not be recorded, because it may
// contain a secret that cannot be read now. Only its cost is recorded. Text that was shown is
// withdrawn, and the message stays open for the next attempt. The model may not have been called at
// all.
func (e *Effects) discardedAnswer(q ModelCall, why error, bill []perdure.Fact, a modelReply) core.Outcome {
	failure := perdure.ReasonCompleted{
		ExecID: q.Command.Exec, Code: string(model.Unavailable), Error: why.Error(), Retryable: true,
		Discarded: a.Discarded + len(a.Message.Calls()), DurationMS: a.took.Milliseconds(),
	}
	var known *model.Error
	if errors.As(why, &known) {
		failure.Error = known.Text
	}
	facts := append(slices.Clone(bill), failure)
	if strings.TrimSpace(a.Message.Text()) != "" {
		facts = append([]perdure.Fact{perdure.OutputReplaced{MessageID: q.Command.Message,
			ReasonCode: perdure.ReplacedByRestart}}, facts...)
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(q.Command), Events: e.events(q.Session, q.Command, facts...)}
}

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

// checkpointOf returns the checkpoint of the message of a model call, starting with the text that
// is stored already. told is called with the number of bytes that the store has.
func (e *Effects) checkpointOf(q ModelCall, kept storedText, told func(kept int)) *checkpoint {
	p := store.Partial{Session: q.Session.ID, Message: q.Command.Message}
	c := &checkpoint{told: told, bytes: e.core.CheckpointBytes, after: e.core.CheckpointTime, written: kept.found}
	c.text.WriteString(kept.text)
	c.put = func(text string) error {
		p.Text = text
		// Not ctx: an abandoned write could arrive after the commit that removes the checkpoint.
		return e.core.Work.InTx(context.Background(), func(tx store.Tx) error {
			if _, err := tx.Sessions().Lock(p.Session, q.Epoch); err != nil { // the next driver's checkpoint is newer
				return err
			}
			return tx.Journal().PutPartial(p)
		})
	}
	c.lost = func(err error) {
		e.core.Log.Warn("checkpoint not stored", "session", p.Session, "message", p.Message, "error", err)
	}
	return c
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

// storedText is what the store has of an open message.
type storedText struct {
	text  string // not blank; empty: nothing
	found bool   // there is a checkpoint to remove

	unread bool // a secret of the session cannot be decrypted
}

// loadStoredText reads the checkpoint of the message of a model call, if there can be one, and
// retries until it succeeds: without the stored text the model would write the same text twice. It
// also waits until the session's secrets can be read, because otherwise the response could not be
// recorded. Not ok: the engine is stopping.
func (e *Effects) loadStoredText(ctx context.Context, q ModelCall) (k storedText, ok bool) {
	for n := 1; ; n++ {
		err := e.readStoredText(ctx, q, &k)
		what := "checkpoint not read"
		if err == nil && (k.text != "" || !q.Command.Stop) {
			what, err = "model call delayed: session secrets not readable", e.secretsUnreadable(q.Session.ID)
			if errors.Is(err, perdure.NotFound) {
				k.unread = true
				return k, true // pendingWrite does not bring a missing key back: the step fails with that error
			}
		}
		if err == nil {
			return k, true
		}
		e.core.Log.Warn(what, "session", q.Session.ID, "message", q.Command.Message, "error", err)
		if !core.Wait(ctx, perdure.RetryDelay(min(n, 5), 0, string(q.Command.Exec))/10) {
			// A person interrupted the turn: it ends, with or without the text.
			return k, perdure.CauseOf(ctx) == perdure.CauseInterrupt
		}
	}
}

// readStoredText reads the checkpoint once.
func (e *Effects) readStoredText(ctx context.Context, q ModelCall, k *storedText) error {
	if !q.Resumed && q.Command.Attempt <= 1 {
		return nil // the message is new, and no model was called for it
	}
	var p store.Partial
	err := e.core.Store.View(context.WithoutCancel(ctx), func(r store.Reader) (err error) {
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

// recoveryMode returns how to handle a response that was interrupted with text: as its agent's
// policy says, if that is possible. again reports whether the model may be called again for the
// message.
func (e *Effects) recoveryMode(q ModelCall, again bool) perdure.RecoveryMode {
	policy := q.Session.Agent.Recovery
	switch {
	case !again || policy == perdure.RecoverFinalize:
		return perdure.RecoverFinalize
	case policy == perdure.RecoverRestart:
		return perdure.RecoverRestart
	}
	if m, ok := e.core.Model.(model.Prefixer); ok && m.ContinuesFrom(q.Session.Turn.Model) {
		return perdure.RecoverContinue
	}
	return perdure.RecoverFinalize
}

// hasAttempts reports whether the message has attempts left.
func (e *Effects) hasAttempts(c perdure.CallModel) bool {
	attempts := e.core.ModelAttempts
	if attempts <= 0 {
		attempts = perdure.DefaultModelAttempts
	}
	return c.Attempt < attempts
}

// interruptedAnswer returns the outcome of an attempt that ended early with text. bill is what the
// attempt cost, if the model was called.
func (e *Effects) interruptedAnswer(q ModelCall, failure perdure.ReasonCompleted, bill []perdure.Fact, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	a.Answer = e.redacted(s, a.Answer)
	text := a.Message.Text()
	failure.TextPreview = preview(text)
	failure.Discarded += len(a.Message.Calls()) // complete calls count too: their message was never recorded
	recovered := perdure.ReasonRecovered{MessageID: c.Message, Mode: e.recoveryMode(q, failure.Retryable && e.hasAttempts(c)),
		TextBytes: len(text)}
	notice := recovered
	notice.Mode, notice.Message = perdure.RecoverFinalize, cutOffNotice()
	final := core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: e.events(s, c,
		append(append([]perdure.Fact{keptText(c.Message, a.Answer)}, bill...), notice, failure)...)}
	switch recovered.Mode {
	case perdure.RecoverContinue:
		return core.Outcome{
			Checkpoint: &store.Partial{Session: s.ID, Message: c.Message, Text: text},
			Events:     e.events(s, c, append(append([]perdure.Fact{}, bill...), recovered, failure)...),
			IfEnding:   &final,
		}
	case perdure.RecoverRestart: // the same message starts again, so clients that saw its text must discard it
		recovered.TextBytes, failure.TextPreview = 0, ""
		replaced := perdure.OutputReplaced{MessageID: c.Message, ReasonCode: perdure.ReplacedByRestart}
		return core.Outcome{
			DropCheckpoint: a.checkpointToDrop(c),
			Events:         e.events(s, c, append(append([]perdure.Fact{replaced}, bill...), recovered, failure)...),
			IfEnding:       &final,
		}
	}
	return final
}

// guardedAnswer returns the outcome of a response that a guardrail ended: the replacement is its
// only text.
func (e *Effects) guardedAnswer(q ModelCall, t *guardrailError, a modelReply) core.Outcome {
	message := perdure.Message{ID: q.Command.Message, Role: perdure.RoleAgent, Model: a.Model,
		At: time.Now().UTC().Truncate(time.Microsecond)}
	if t.replacement != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: t.replacement}}
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(q.Command), Events: e.events(q.Session, q.Command,
		perdure.OutputReplaced{MessageID: q.Command.Message, Guardrail: t.guard, ReasonCode: perdure.ReplacedByGuard,
			Replacement: t.replacement},
		perdure.OutputCompleted{Message: message, Usage: a.Usage, FinishReason: perdure.ReplacedByGuard},
		perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(),
			FinishReason: perdure.ReplacedByGuard},
		perdure.ReasonCompleted{
			ExecID: q.Command.Exec, Success: true,
			TextPreview: preview(t.replacement), DurationMS: a.took.Milliseconds(),
			Discarded: a.Discarded + len(a.Message.Calls()),
		})}
}

// saveCheckpoint stores and removes checkpoints in the commit of an outcome, and returns the
// outcome that applies.
func (s *step) saveCheckpoint(o core.Outcome) (core.Outcome, error) {
	if turn := s.session.Turn; o.IfEnding != nil && turn != nil && turn.Interrupt != nil {
		o = *o.IfEnding
	}
	if o.Checkpoint != nil {
		if err := s.tx.Journal().PutPartial(*o.Checkpoint); err != nil {
			return o, err
		}
	}
	if o.DropCheckpoint != "" {
		return o, s.tx.Journal().DropPartial(s.d.ID, o.DropCheckpoint)
	}
	return o, nil
}

// noteInheritedStep notes which reason step was open when the driver acquired the session.
func (s *step) noteInheritedStep(take bool) {
	if turn := s.session.Turn; take {
		s.d.inheritedExec = ""
		if turn != nil && turn.Phase == perdure.PhaseReasoning {
			s.d.inheritedExec = turn.Exec
		}
	}
}
