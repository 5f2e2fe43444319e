package secretargs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// Masker masks the secrets of one execution: those of its session, and its own secret arguments.
// nil masks nothing. Safe for concurrent use.
type Masker struct {
	known tool.SecretMasker // nil: the session has none
	own   *redact.Set       // nil: the call has none
}

// New returns a masker, or nil if there is nothing to mask.
func New(known tool.SecretMasker, own *redact.Set) *Masker {
	if known == nil && own == nil {
		return nil
	}
	return &Masker{known: known, own: own}
}

// Any reports whether there is something to mask now.
func (v *Masker) Any() bool { return v != nil && (v.own != nil || v.known.Any()) }

// Mask replaces the secrets in a text.
func (v *Masker) Mask(text string) string {
	if v == nil || text == "" {
		return text
	}
	if v.known != nil {
		text = v.known.Mask(text)
	}
	return v.own.Mask(text)
}

// Result masks the secrets in a result, unless the result reveals one on purpose; the permission
// for that was checked before the call ran. The error, which is only logged, is masked too.
func (v *Masker) Result(r tool.Result) tool.Result {
	if v == nil || r.RevealsSecret {
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
	if len(r.Metadata) > 0 {
		r.Metadata = v.metadata(r.Metadata)
	}
	return r
}

// metadata masks the metadata of a result. Metadata that cannot be encoded is left out later;
// metadata that is no object any more, because a secret spans several values, is left out here.
func (v *Masker) metadata(metadata map[string]any) map[string]any {
	body, err := json.Marshal(metadata)
	if err != nil {
		return metadata
	}
	masked := v.JSON(body)
	if bytes.Equal(masked, body) {
		return metadata
	}
	var shown map[string]any
	if perdure.DecodeJSON(masked, &shown) != nil {
		return nil
	}
	return shown
}

// value masks the value of a result. A value that cannot be encoded is returned as it is: it
// becomes an internal error later.
func (v *Masker) value(r tool.Result) any {
	record, err := tool.Success(r.Value).Record("")
	if err != nil {
		return r.Value
	}
	return v.JSON(record.Result)
}

// JSON masks the secrets in JSON. If the result is not valid JSON, because a secret is a number or
// spans several values, it is encoded as one string.
func (v *Masker) JSON(body json.RawMessage) json.RawMessage {
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

// Sink masks what is reported to a sink. Close it when the work has ended, since the end of an
// output may be held back. Safe for concurrent use.
type Sink struct {
	masker *Masker
	to     tool.Sink

	mu      sync.Mutex         // held while a piece passes through, to keep the order
	streams map[string]*stream // guarded by mu
	order   []string           // guarded by mu; in the order in which they started
	closed  bool               // guarded by mu
	skipped bool               // guarded by mu; output was missing, so a new stream may start in the middle of a secret
}

// stream masks one output.
type stream struct{ known, own tool.StreamMasker }

// Sink returns a sink that masks what it passes to another sink.
func (v *Masker) Sink(to tool.Sink) *Sink {
	return &Sink{masker: v, to: to, streams: map[string]*stream{}}
}

// Status masks and passes on a status line.
func (s *Sink) Status(text string) perdure.Cause { return s.to.Status(s.masker.Mask(text)) }

// Progress masks and passes on progress.
func (s *Sink) Progress(current, total float64, label string) perdure.Cause {
	return s.to.Progress(current, total, s.masker.Mask(label))
}

// ReportProgress masks and passes on progress.
func (s *Sink) ReportProgress(p perdure.Progress) perdure.Cause {
	p.Unit, p.Label = s.masker.Mask(p.Unit), s.masker.Mask(p.Label)
	return tool.ReportProgress(s.to, p)
}

// Output masks a piece of output and passes on the part that is safe.
func (s *Sink) Output(name string, delta []byte) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.to.Heartbeat()
	}
	one := s.streams[name]
	if one == nil {
		if one = s.masker.stream(); s.skipped {
			one.skip()
		}
		s.streams[name], s.order = one, append(s.order, name)
	}
	return s.pass(name, one.feed(delta))
}

// Skip passes on a gap. A part of a secret on either side of the gap is never shown.
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

// Artifact masks and passes on an artifact.
func (s *Sink) Artifact(a perdure.Artifact) perdure.Cause {
	a.Name, a.Type, a.Path, a.URL = s.masker.Mask(a.Name), s.masker.Mask(a.Type), s.masker.Mask(a.Path), s.masker.Mask(a.URL)
	return s.to.Artifact(a)
}

// Heartbeat passes on a heartbeat.
func (s *Sink) Heartbeat() perdure.Cause { return s.to.Heartbeat() }

// Close passes on what was held back. Later output is dropped.
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

func (v *Masker) stream() *stream {
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
	for _, m := range []tool.StreamMasker{s.known, s.own} {
		if m != nil {
			piece = m.Feed(piece)
		}
	}
	return piece
}

// skip tells both streams that a piece is missing. The rest of the first goes through the second.
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

// Dialog masks questions and messages that go out through a dialog.
func (v *Masker) Dialog(to tool.Dialog) tool.Dialog { return dialog{Dialog: to, masker: v} }

// dialog masks what goes out through a dialog, but not what comes in.
type dialog struct {
	tool.Dialog
	masker *Masker
}

// Ask masks and asks a question.
func (d dialog) Ask(ctx context.Context, q tool.Question) (tool.Reply, error) {
	q.Prompt = d.masker.Mask(q.Prompt)
	if masked := d.masker.Mask(string(q.Expected)); masked != string(q.Expected) {
		if q.Expected = []byte(masked); !json.Valid(q.Expected) {
			q.Expected = nil // without a schema any answer is accepted
		}
	}
	q.Permissions = slices.Clone(q.Permissions)
	for i, p := range q.Permissions {
		q.Permissions[i].Target, q.Permissions[i].Reason = d.masker.Mask(p.Target), d.masker.Mask(p.Reason)
	}
	return d.Dialog.Ask(ctx, q)
}

// Tell masks and sends a message to the session.
func (d dialog) SendToSession(ctx context.Context, m perdure.TaskMessage) error {
	m.Text = d.masker.Mask(m.Text)
	if len(m.Data) > 0 {
		m.Data = d.masker.JSON(m.Data)
	}
	return d.Dialog.SendToSession(ctx, m)
}

// Events masks the data of events.
func (v *Masker) Events(to tool.Events) tool.Events { return events{to: to, masker: v} }

// events is an event port behind a masker.
type events struct {
	to     tool.Events
	masker *Masker
}

// Emit masks and emits an event.
func (e events) Emit(ctx context.Context, name string, data any) error {
	body, err := tool.CheckEvent(name, data)
	if err != nil {
		return err
	}
	return e.to.Emit(ctx, e.masker.Mask(name), e.masker.JSON(body))
}

// Utility masks what a utility model is asked and what it answers, so that no model learns a
// secret.
func (v *Masker) Utility(to tool.Utility) tool.Utility { return utility{to: to, masker: v} }

// utility is a utility model behind a masker.
type utility struct {
	to     tool.Utility
	masker *Masker
}

// Complete masks the prompt and the answer.
func (u utility) Complete(ctx context.Context, o tool.UtilityRequest) (string, error) {
	o.System, o.Prompt = u.masker.Mask(o.System), u.masker.Mask(o.Prompt)
	text, err := u.to.Complete(ctx, o)
	return u.masker.Mask(text), err
}
