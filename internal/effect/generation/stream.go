package generation

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// stream calls the model once and publishes the text to live watchers. A stream without content for
// the stall timeout ends as provider_stalled.
//
// The response continues the stored text. If a guardrail trips, the response ends, and the text on
// which it tripped is shown to nobody.
func (g *Generator) stream(ctx context.Context, q ModelCall, kept storedText) (modelReply, error) {
	req, id := g.requestWithAgents(ctx, q.Session, q.Command), q.Command.Message
	req.Messages = g.resolvedImages(ctx, q.Session.ID, req.Messages)
	req.Prefix = kept.prefix()
	kept.text = req.Prefix
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := &model.Error{Code: model.Stalled, Text: "no content for " + g.core.Timing.Stall.String()}
	watchdog := time.AfterFunc(g.core.Timing.Stall, func() { cancel(stalled) })
	defer watchdog.Stop()
	live := deltaBuffer{offset: len(req.Prefix), publish: func(offset int, text string) {
		g.core.Store.Publish(store.Frame{Session: req.Session, Type: DeltaFrame,
			Data: OutputDelta{MessageID: id, Offset: offset, Delta: text}})
	}}
	meter := progressMeter{now: StreamProgress{MessageID: id, TextChars: utf8.RuneCountInString(req.Prefix)},
		publish: func(now StreamProgress) {
			g.core.Store.Publish(store.Frame{Session: req.Session, Type: ProgressFrame, Data: now})
		}}
	defer meter.end()
	saved := g.checkpointOf(q, kept, live.markStored)
	redactor := streamRedactor{known: g.secrets.Known(req.Session)}
	redactor.feed(req.Prefix) // a secret may start in the stored text
	var answer model.Answer
	err := g.core.Guarded("ask the model", func() (err error) {
		answer, err = model.Collect(g.guardedStream(g.core.Model.Stream(ctx, req), req.Prefix), func(d model.Delta) {
			watchdog.Reset(g.core.Timing.Stall) // every delta is content, or a sign of life before the first content
			g.core.ReportActivity(req.Session)  // thinking too; the adapter bounds the wait for the first content
			meter.add(d)
			text := redactor.feed(d.Text)
			live.add(text)
			saved.add(text)
		})
		return err
	})
	got := modelReply{Answer: answer.WithPrefix(req.Prefix), noted: saved.end()}
	if tripped := new(guardrailError); errors.As(err, &tripped) {
		live.drop()
		return got, err
	}
	live.add(redactor.flush())
	live.flush()
	if errors.Is(context.Cause(ctx), stalled) {
		if answer.Message.Text() == "" && answer.Message.Thinking == "" {
			stalled.Text += "; the model option first_token_timeout allows more before the first word"
		}
		return got, stalled
	}
	return got, err
}

// guardedStream ends a stream when its text trips a guardrail, before the offending delta is passed
// on.
func (g *Generator) guardedStream(stream iter.Seq2[model.Delta, error], prefix string) iter.Seq2[model.Delta, error] {
	if len(g.core.Policies.Guards) == 0 {
		return stream
	}
	return func(yield func(model.Delta, error) bool) {
		var text strings.Builder
		text.WriteString(prefix)
		for d, err := range stream {
			if text.WriteString(d.Text); err == nil && d.Text != "" {
				if err := g.checkGuardrails(text.String()); err != nil {
					yield(model.Delta{}, err)
					return
				}
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// guardrailError is the error of a stream that a guardrail ended. It reveals nothing of the text.
type guardrailError struct{ guard, replacement string }

func (t *guardrailError) Error() string { return "guardrail " + t.guard + " tripped" }

// checkGuardrails runs the guardrails on a text. Its error is a *guardrailError, of the first
// guardrail that tripped.
func (g *Generator) checkGuardrails(text string) error {
	if text == "" {
		return nil
	}
	for _, rail := range g.core.Policies.Guards {
		if replacement, tripped := rail.Check(text); tripped {
			return &guardrailError{guard: rail.Name, replacement: replacement}
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
