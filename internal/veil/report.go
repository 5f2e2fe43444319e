package veil

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// Veil is what must not be told of one execution: the secrets of its session, and its own secret arguments. nil hides
// nothing. Safe for concurrent use.
type Veil struct {
	known tool.Known  // nil: the session has none
	own   *redact.Set // nil: the call has none
}

// New returns a veil, or nil where nothing can be hidden.
func New(known tool.Known, own *redact.Set) *Veil {
	if known == nil && own == nil {
		return nil
	}
	return &Veil{known: known, own: own}
}

// Any reports whether there is something to hide now.
func (v *Veil) Any() bool { return v != nil && (v.own != nil || v.known.Any()) }

// Mask takes the secrets out of a text.
func (v *Veil) Mask(text string) string {
	if v == nil || text == "" {
		return text
	}
	if v.known != nil {
		text = v.known.Mask(text)
	}
	return v.own.Mask(text)
}

// Result takes the secrets out of a result, unless it reveals one on purpose: whether it may was asked before it ran. What
// its error says goes to the log only, and is masked too.
func (v *Veil) Result(r tool.Result) tool.Result {
	if v == nil || r.Reveals {
		return r
	}
	r.Text, r.Summary = v.Mask(r.Text), v.Mask(r.Summary)
	if r.Raw != nil {
		raw := v.Mask(*r.Raw)
		r.Raw = &raw
	}
	if r.Err != nil {
		if text := r.Err.Error(); v.Mask(text) != text {
			r.Err = errors.New(v.Mask(text))
		}
	}
	if r.Value != nil {
		r.Value = v.value(r)
	}
	return r
}

// value is the value of a result. One that cannot be written stays: it becomes an internal error.
func (v *Veil) value(r tool.Result) any {
	record, err := tool.Success(r.Value).Record("")
	if err != nil {
		return r.Value
	}
	return v.JSON(record.Result)
}

// JSON takes the secrets out of JSON. Where that leaves none, since a secret is a number, or goes over the end of a text, the
// whole is a text.
func (v *Veil) JSON(body json.RawMessage) json.RawMessage {
	masked := v.Mask(string(body))
	if masked == string(body) {
		return body
	}
	if json.Valid([]byte(masked)) {
		return json.RawMessage(masked)
	}
	text, err := json.Marshal(masked)
	if err != nil { // a string always encodes
		return json.RawMessage(mark)
	}
	return text
}

// Sink masks what is reported to a sink. Close it when the work has ended: the end of an output may wait for it. Safe for
// concurrent use.
type Sink struct {
	veil *Veil
	to   tool.Sink

	mu      sync.Mutex         // held while a piece goes through, so that pieces keep their order
	streams map[string]*stream // guarded by mu
	order   []string           // guarded by mu; in which they began
	closed  bool               // guarded by mu
	skipped bool               // guarded by mu; output was missing: a stream that begins later may begin anywhere
}

// stream is one output under the veil.
type stream struct{ known, own tool.Masking }

// Sink puts a veil before a sink.
func (v *Veil) Sink(to tool.Sink) *Sink { return &Sink{veil: v, to: to, streams: map[string]*stream{}} }

// Status shows a line.
func (s *Sink) Status(text string) perdure.Cause { return s.to.Status(s.veil.Mask(text)) }

// Progress shows how far the work is.
func (s *Sink) Progress(current, total float64, label string) perdure.Cause {
	return s.to.Progress(current, total, s.veil.Mask(label))
}

// Output masks a piece of output, and passes on what may go out.
func (s *Sink) Output(name string, delta []byte) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.to.Heartbeat()
	}
	one := s.streams[name]
	if one == nil {
		if one = s.veil.stream(); s.skipped {
			one.skip()
		}
		s.streams[name], s.order = one, append(s.order, name)
	}
	return s.pass(name, one.feed(delta))
}

// Skip passes on that output is missing. What a secret has on either side of that is never shown.
func (s *Sink) Skip(n int64) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.to.Heartbeat()
	}
	for _, name := range s.order {
		if out := s.streams[name].skip(); len(out) > 0 {
			s.to.Output(name, out)
		}
	}
	s.skipped = true
	if to, ok := s.to.(tool.Skipper); ok {
		return to.Skip(n)
	}
	return s.to.Heartbeat()
}

func (s *Sink) pass(name string, out []byte) perdure.Cause {
	if len(out) == 0 {
		return s.to.Heartbeat()
	}
	return s.to.Output(name, out)
}

// Artifact names something that the work leaves behind.
func (s *Sink) Artifact(a perdure.Artifact) perdure.Cause {
	a.Name, a.Type, a.Path, a.URL = s.veil.Mask(a.Name), s.veil.Mask(a.Type), s.veil.Mask(a.Path), s.veil.Mask(a.URL)
	return s.to.Artifact(a)
}

// Heartbeat is a sign of life.
func (s *Sink) Heartbeat() perdure.Cause { return s.to.Heartbeat() }

// Close passes on what was held back. Output after it is thrown away.
func (s *Sink) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, name := range s.order {
		if out := s.streams[name].flush(); len(out) > 0 {
			s.to.Output(name, out)
		}
	}
}

func (v *Veil) stream() *stream {
	var one stream
	if v.known != nil {
		one.known = v.known.Stream()
	}
	if v.own != nil {
		one.own = v.own.Stream()
	}
	return &one
}

func (s *stream) feed(piece []byte) []byte {
	for _, m := range []tool.Masking{s.known, s.own} {
		if m != nil {
			piece = m.Feed(piece)
		}
	}
	return piece
}

// skip tells both streams that a piece is missing, the first one's rest being the second one's.
func (s *stream) skip() (out []byte) {
	if s.known != nil {
		out = s.known.Skip()
	}
	if s.own != nil {
		out = append(s.own.Feed(out), s.own.Skip()...)
	}
	return out
}

// flush ends the streams, the first one into the second.
func (s *stream) flush() (out []byte) {
	if s.known != nil {
		out = s.known.Flush()
	}
	if s.own != nil {
		out = append(s.own.Feed(out), s.own.Flush()...)
	}
	return out
}

// Dialog masks what is asked and told through a dialog.
func (v *Veil) Dialog(to tool.Dialog) tool.Dialog { return dialog{Dialog: to, veil: v} }

// dialog is a dialog under the veil. What comes in is not masked.
type dialog struct {
	tool.Dialog
	veil *Veil
}

// Ask puts a question.
func (d dialog) Ask(ctx context.Context, q tool.Question) (tool.Reply, error) {
	q.Prompt = d.veil.Mask(q.Prompt)
	if masked := d.veil.Mask(string(q.Expected)); masked != string(q.Expected) {
		if q.Expected = []byte(masked); !json.Valid(q.Expected) {
			q.Expected = nil // any answer is one, rather than none
		}
	}
	q.Permissions = slices.Clone(q.Permissions)
	for i, p := range q.Permissions {
		q.Permissions[i].Target, q.Permissions[i].Reason = d.veil.Mask(p.Target), d.veil.Mask(p.Reason)
	}
	return d.Dialog.Ask(ctx, q)
}

// Tell sends a message to the session.
func (d dialog) Tell(ctx context.Context, m perdure.TaskMessage) error {
	m.Text = d.veil.Mask(m.Text)
	if len(m.Data) > 0 {
		m.Data = d.veil.JSON(m.Data)
	}
	return d.Dialog.Tell(ctx, m)
}

// Utility masks what a model is asked, and what it answers: no model is told a secret.
func (v *Veil) Utility(to tool.Utility) tool.Utility { return utility{to: to, veil: v} }

// utility is a utility model under the veil.
type utility struct {
	to   tool.Utility
	veil *Veil
}

// Complete answers a prompt.
func (u utility) Complete(ctx context.Context, o tool.UtilityOrder) (string, error) {
	o.System, o.Prompt = u.veil.Mask(o.System), u.veil.Mask(o.Prompt)
	text, err := u.to.Complete(ctx, o)
	return u.veil.Mask(text), err
}
