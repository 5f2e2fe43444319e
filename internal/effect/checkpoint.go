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
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// When the text of a message that streams is stored (TN19): what a crash loses is at most that.
const (
	checkpointBytes = 4 << 10
	checkpointTime  = time.Second
)

// Guard looks at the text of an answer while it comes (TN9). A guard that trips ends the answer: nobody is shown more of
// it, replacement stands in its place, and what it said is stored nowhere. It is called by many at once, again and again
// with all the text so far, and must answer quickly. One that panics fails the step, and shows nothing more either.
type Guard struct {
	Name  string // stands in the event
	Check func(text string) (replacement string, tripped bool)
}

// trip is the error of a stream that a guard ended. It tells nothing of the text.
type trip struct{ guard, replacement string }

func (t *trip) Error() string { return "the guard " + t.guard + " tripped" }

// checked runs the guards on a text. The error is a trip, of the first that tripped.
func (e *Effects) checked(text string) error {
	if text == "" {
		return nil
	}
	for _, g := range e.cfg.Guards {
		if replacement, tripped := g.Check(text); tripped {
			return &trip{guard: g.Name, replacement: replacement}
		}
	}
	return nil
}

// hush takes the secrets of a session out of the text of an answer while it comes, so that neither live watchers nor a
// checkpoint have them (SE4). It holds back what may be the beginning of one.
type hush struct {
	known  tool.Known   // nil: there can be none
	stream tool.Masking // of known, from the first text on
	shut   bool         // they could not be read when the text began: nothing of it is shown
}

// feed takes new text, and returns what may be shown.
func (h *hush) feed(text string) string {
	if h.known == nil || text == "" {
		return text
	}
	if h.stream == nil && !h.shut {
		h.shut = h.known.Readable() != nil
		h.stream = h.known.Stream()
	}
	if h.shut {
		return ""
	}
	return string(h.stream.Feed([]byte(text)))
}

// flush returns what was held back.
func (h *hush) flush() string {
	if h.stream == nil || h.shut {
		return ""
	}
	return string(h.stream.Flush())
}

// batch gathers text for live watchers: what was added is published deltaBatch later at the latest. Safe for concurrent use.
type batch struct {
	publish func(offset int, text string)

	mu     sync.Mutex // guards what follows; held while it is published, so that it comes in order
	text   strings.Builder
	offset int // bytes of the answer before text
	timer  *time.Timer
}

func (b *batch) add(text string) {
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

func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out()
}

// mark tells how far the store has the text, so that a follower who lacks some of it knows where to find it (ST4).
func (b *batch) mark(kept int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out() // else all followers would lack it
	b.publish(kept, "")
}

// drop forgets what was not published.
func (b *batch) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// out publishes what there is. The lock is held.
func (b *batch) out() {
	if b.text.Len() == 0 {
		return
	}
	b.timer.Stop()
	b.publish(b.offset, b.text.String())
	b.offset += b.text.Len()
	b.text.Reset()
}

// hushed is an answer that is not whole, with what sealed takes out of the texts of one that is.
func (e *Effects) hushed(s *perdure.Session, a model.Answer) model.Answer {
	text := a.Message.Text()
	if text == "" {
		return a
	}
	for _, v := range e.unsaid(s, a.Message) {
		text = v.Mask(text)
	}
	var parts []perdure.Part
	if text != redact.Unprintable { // else nobody knows what may be said of it
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

// unsaid is what may stand in no text of an answer: the secrets of its session, and the secret arguments of its calls, also of
// those in the background.
func (e *Effects) unsaid(s *perdure.Session, m perdure.Message) (all []*veil.Veil) {
	if known := e.known(s.ID); known != nil {
		all = append(all, veil.New(known, nil))
	}
	for _, call := range m.Calls() {
		var own *redact.Set
		t, ok := e.tool(call.Name)
		switch {
		case ok && t.Spec().Hints.CapabilityID != backgroundCapability:
			own = veil.SecretsOf(t.Spec().Parameters, call.Arguments)
		case !e.keepsSecrets():
		case ok:
			_, own, _ = veil.Order(t.Spec().Parameters, call.Arguments, e.ordered)
		default:
			own = veil.Anything(call.Arguments)
		}
		if own != nil {
			all = append(all, veil.New(nil, own))
		}
	}
	return all
}

// unread says that the secrets of a session cannot be read now, as the failure of a step; nil: they can, or there are none.
func (e *Effects) unread(id perdure.SessionID) error {
	known := e.known(id)
	if known == nil {
		return nil
	}
	if err := known.Readable(); err != nil {
		return &model.Error{Code: model.Unavailable, Text: "the secrets of the session cannot be read now, so no answer can be recorded", Err: err}
	}
	return nil
}

// unheard makes the outcome of an attempt whose text nobody may record, since it may tell a secret that cannot be read: what it
// cost. What was shown of it is taken back, and the message stays open for the next attempt. It may be of one that was not asked.
func (e *Effects) unheard(q Question, why error, bill []perdure.Fact, a reply) Outcome {
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
		facts = append([]perdure.Fact{perdure.OutputReplaced{MessageID: q.Command.Message, ReasonCode: perdure.ReplacedByRestart}}, facts...)
	}
	return Outcome{Drop: a.dropped(q.Command), Events: e.events(q.Session, q.Command, facts...)}
}

// known is the secrets of a session; nil: there can be none.
func (e *Effects) known(id perdure.SessionID) tool.Known {
	if e.cfg.Ports == nil {
		return nil
	}
	return e.cfg.Ports(id, tool.Call{Session: id}).Known
}

// checkpoint keeps the text so far of a message that streams, outside the turn's commits. A store that does not take it
// is logged: the answer goes on without.
type checkpoint struct {
	put   func(text string) error
	told  func(kept int) // it was put
	lost  func(err error)
	bytes int           // of new text, then it is stored
	after time.Duration // since the first new text, likewise

	mu      sync.Mutex // guards what follows; held while the store writes, so that nothing is written after end
	text    strings.Builder
	fresh   int // bytes of text that are not stored
	timer   *time.Timer
	written bool // the store may have one
	ended   bool
}

// checkpointOf returns the checkpoint of the message that a question is for; it begins with the text that was kept. told hears
// how much of the text the store has.
func (e *Effects) checkpointOf(q Question, kept kept, told func(kept int)) *checkpoint {
	p := store.Partial{Session: q.Session.ID, Message: q.Command.Message}
	c := &checkpoint{told: told, bytes: e.cfg.CheckpointBytes, after: e.cfg.CheckpointTime, written: kept.found}
	c.text.WriteString(kept.text)
	c.put = func(text string) error {
		p.Text = text
		// Not ctx: a write that was left alone could come after the commit that removes it.
		return e.work.InTx(context.Background(), func(tx store.Tx) error {
			if _, err := tx.LockSession(p.Session, q.Epoch); err != nil { // the next driver has a newer one
				return err
			}
			return tx.PutPartial(p)
		})
	}
	c.lost = func(err error) {
		e.cfg.Log.Warn("the text so far of an answer was not kept", "session", p.Session, "message", p.Message, "error", err)
	}
	return c
}

// add takes new text.
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

// due stores what is old enough.
func (c *checkpoint) due() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.save()
}

// save is called with mu held.
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

// end stops the writing, and reports whether the store may have a checkpoint.
func (c *checkpoint) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.written
}

// kept is what the store has of an open message.
type kept struct {
	text  string // not blank; empty: nothing
	found bool   // there is a checkpoint to be removed

	unread bool // a secret of the session could not be opened
}

// kept reads the checkpoint of the message that a question is for, where there can be one, as often as it takes: without
// it the model is not asked, since its text would come twice (TN20). Nor is it while the store does not tell the session's
// secrets, since its answer could not be recorded. Not ok: the runtime stops.
func (e *Effects) kept(ctx context.Context, q Question) (k kept, ok bool) {
	for n := 1; ; n++ {
		err := e.readKept(ctx, q, &k)
		what := "the text so far of an answer cannot be read"
		if err == nil && (k.text != "" || !q.Command.Stop) {
			what, err = "a model is not asked while the secrets of its session cannot be read", e.unread(q.Session.ID)
			if errors.Is(err, perdure.NotFound) {
				k.unread = true
				return k, true // no waiting brings a key back: the step fails, and says so
			}
		}
		if err == nil {
			return k, true
		}
		e.cfg.Log.Warn(what, "session", q.Session.ID, "message", q.Command.Message, "error", err)
		if !wait(ctx, perdure.RetryDelay(min(n, 5), 0, string(q.Command.Exec))/10) {
			// Stopped by a person: the turn ends, with or without the text.
			return k, perdure.CauseOf(ctx) == perdure.CauseInterrupt
		}
	}
}

// readKept reads it once.
func (e *Effects) readKept(ctx context.Context, q Question, k *kept) error {
	if !q.TakenUp && q.Command.Attempt <= 1 {
		return nil // the message was opened here, and nobody was asked
	}
	var p store.Partial
	err := e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) (err error) {
		p, err = r.Partial(q.Session.ID, q.Command.Message)
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

// prefix is the text as a model goes on from it. Providers refuse white space at its end.
func (k kept) prefix() string { return strings.TrimRightFunc(k.text, unicode.IsSpace) }

// answer is the text as an answer that broke off.
func (k kept) answer() model.Answer {
	message := perdure.Message{Role: perdure.RoleAgent, Interrupted: true}
	if k.text != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: k.text}}
	}
	return model.Answer{Message: message}
}

// recovery is what becomes of an answer that broke off with text: what its agent's policy says, where that is possible.
// again is whether the model may be asked once more for the same message.
func (e *Effects) recovery(q Question, again bool) perdure.RecoveryMode {
	policy := q.Session.Agent.Recovery
	switch {
	case !again || policy == perdure.RecoverFinalize:
		return perdure.RecoverFinalize
	case policy == perdure.RecoverRestart:
		return perdure.RecoverRestart
	}
	if m, ok := e.cfg.Model.(model.Prefixer); ok && m.ContinuesFrom(q.Session.Turn.Model) {
		return perdure.RecoverContinue
	}
	return perdure.RecoverFinalize
}

// mayAsk reports whether attempts for the message are left.
func (e *Effects) mayAsk(c perdure.CallModel) bool {
	attempts := e.cfg.ModelAttempts
	if attempts <= 0 {
		attempts = perdure.DefaultModelAttempts
	}
	return c.Attempt < attempts
}

// brokeOff makes the outcome of an attempt that ended with text and without an end (TN20). bill is what it cost, if
// somebody was asked.
func (e *Effects) brokeOff(q Question, failure perdure.ReasonCompleted, bill []perdure.Fact, a reply) Outcome {
	s, c := q.Session, q.Command
	a.Answer = e.hushed(s, a.Answer)
	text := a.Message.Text()
	failure.TextPreview = preview(text)
	failure.Discarded += len(a.Message.Calls()) // whole ones too: their message never was
	recovered := perdure.ReasonRecovered{MessageID: c.Message, Mode: e.recovery(q, failure.Retryable && e.mayAsk(c)), KeptLen: len(text)}
	notice := recovered
	notice.Mode, notice.Message = perdure.RecoverFinalize, cutOffNotice()
	final := Outcome{Drop: a.dropped(c), Events: e.events(s, c, append(append([]perdure.Fact{keptText(c.Message, a.Answer)}, bill...), notice, failure)...)}
	switch recovered.Mode {
	case perdure.RecoverContinue:
		return Outcome{
			Keep:   &store.Partial{Session: s.ID, Message: c.Message, Text: text},
			Events: e.events(s, c, append(append([]perdure.Fact{}, bill...), recovered, failure)...),
			Ending: &final,
		}
	case perdure.RecoverRestart: // the same message begins again, so whoever saw its text must forget it
		recovered.KeptLen, failure.TextPreview = 0, ""
		replaced := perdure.OutputReplaced{MessageID: c.Message, ReasonCode: perdure.ReplacedByRestart}
		return Outcome{
			Drop:   a.dropped(c),
			Events: e.events(s, c, append(append([]perdure.Fact{replaced}, bill...), recovered, failure)...),
			Ending: &final,
		}
	}
	return final
}

// withheld makes the outcome of an answer that a guard ended: its replacement is the whole of it (TN9).
func (e *Effects) withheld(q Question, t *trip, a reply) Outcome {
	message := perdure.Message{ID: q.Command.Message, Role: perdure.RoleAgent, Model: a.Model, At: time.Now().UTC().Truncate(time.Microsecond)}
	if t.replacement != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: t.replacement}}
	}
	return Outcome{Drop: a.dropped(q.Command), Events: e.events(q.Session, q.Command,
		perdure.OutputReplaced{MessageID: q.Command.Message, Guardrail: t.guard, ReasonCode: perdure.ReplacedByGuard, Replacement: t.replacement},
		perdure.OutputCompleted{Message: message, Usage: a.Usage, FinishReason: perdure.ReplacedByGuard},
		perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(), FinishReason: perdure.ReplacedByGuard},
		perdure.ReasonCompleted{
			ExecID: q.Command.Exec, Success: true, TextPreview: preview(t.replacement), DurationMS: a.took.Milliseconds(),
			Discarded: a.Discarded + len(a.Message.Calls()),
		})}
}

// keep writes and removes checkpoints with the commit of an outcome, and returns what of the outcome counts.
func (s *step) keep(o Outcome) (Outcome, error) {
	if turn := s.session.Turn; o.Ending != nil && turn != nil && turn.Interrupt != nil {
		o = *o.Ending
	}
	if o.Keep != nil {
		if err := s.tx.PutPartial(*o.Keep); err != nil {
			return o, err
		}
	}
	if o.Drop != "" {
		return o, s.tx.DropPartial(s.d.ID, o.Drop)
	}
	return o, nil
}

// findAsked notes which reason step somebody else had begun when the session was taken.
func (s *step) findAsked(take bool) {
	if turn := s.session.Turn; take {
		s.d.asked = ""
		if turn != nil && turn.Phase == perdure.PhaseReasoning {
			s.d.asked = turn.Exec
		}
	}
}
