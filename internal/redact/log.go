package redact

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
)

// Logs returns a handler that redacts messages and attribute values before another handler gets
// them: by the names of secrets, and by the known secrets. nil is a redactor with the defaults.
//
// Strings and errors are not cut, because half a stack trace is useless. Any other value that needs
// redacting becomes a [Redactor.Document]. Values without secrets are passed on unchanged. A value
// that cannot be redacted becomes [Unprintable].
func Logs(next slog.Handler, r *Redactor) slog.Handler { return logs{next: next, redactor: r} }

// logs is a redacting handler.
type logs struct {
	next     slog.Handler
	redactor *Redactor
	hidden   bool // an open group has the name of a secret
}

// Enabled asks the next handler.
func (l logs) Enabled(ctx context.Context, level slog.Level) bool { return l.next.Enabled(ctx, level) }

// Handle redacts and passes on a record.
func (l logs) Handle(ctx context.Context, record slog.Record) error {
	out := slog.NewRecord(record.Time, record.Level, l.redactor.redactText(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(l.attr(a))
		return true
	})
	return l.next.Handle(ctx, out)
}

// WithAttrs redacts and adds attributes.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.next = l.next.WithAttrs(l.attrs(attrs))
	return l
}

// WithGroup opens a group.
func (l logs) WithGroup(name string) slog.Handler {
	l.next = l.next.WithGroup(name)
	l.hidden = l.hidden || isSecretName(name)
	return l
}

func (l logs) attrs(attrs []slog.Attr) []slog.Attr {
	out := slices.Clone(attrs)
	for i, a := range out {
		out[i] = l.attr(a)
	}
	return out
}

func (l logs) attr(a slog.Attr) slog.Attr {
	if a.Equal(slog.Attr{}) {
		return a // a handler ignores an empty attribute
	}
	value := a.Value.Resolve()
	kind := value.Kind()
	number := kind == slog.KindInt64 || kind == slog.KindUint64 || kind == slog.KindFloat64
	switch {
	case l.hidden || isSecretName(a.Key) && !(number && countsTokens(a.Key)):
		value = slog.StringValue(Mark)
	case kind == slog.KindGroup:
		value = slog.GroupValue(l.attrs(value.Group())...)
	case kind == slog.KindString:
		value = slog.StringValue(l.redactor.redactText(value.String()))
	case kind == slog.KindAny:
		value = l.redactor.logged(value.Any())
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// redactText redacts a text without cutting it.
func (r *Redactor) redactText(text string) string {
	return r.redactStable(text, func(p *printer, v any) (string, error) {
		wide := printer{cfg: p.cfg}
		wide.cfg.MaxString, wide.cfg.MaxDocument = maxScanned, maxScanned
		return wide.document(v)
	})
}

// logged returns the redacted form of a value of any type.
func (r *Redactor) logged(v any) (out slog.Value) {
	defer func() {
		if recover() != nil {
			out = slog.StringValue(Unprintable)
		}
	}()
	text := ""
	switch it := v.(type) {
	case nil, bool, int, int64, float64:
		return slog.AnyValue(v)
	case error:
		text = it.Error()
	case json.Marshaler, encoding.TextMarshaler:
		return r.inLog(v)
	case fmt.Stringer:
		text = it.String()
	default:
		plain, ok := plainText(reflect.ValueOf(v))
		if !ok {
			return r.inLog(v)
		}
		text = plain
	}
	if safe := r.redactText(text); safe != text {
		return slog.StringValue(safe)
	}
	return slog.AnyValue(v)
}

// inLog returns a document for a log. A document that was cut is a string.
func (r *Redactor) inLog(v any) slog.Value {
	doc := r.Document(v)
	if !json.Valid([]byte(doc)) {
		return slog.StringValue(doc)
	}
	return slog.AnyValue(document(doc))
}

// document is JSON in a log. A JSON handler writes it as it is.
type document string

func (d document) String() string               { return string(d) }
func (d document) MarshalJSON() ([]byte, error) { return []byte(d), nil }
