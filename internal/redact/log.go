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

// Logs puts a redactor before a log: its messages and the values of its attributes go without the names of secrets (RD2) and
// without the known ones (RD5). nil is a redactor with the defaults.
//
// A text or an error is not cut, since a stack is of use only whole; any other value that is redacted is a [Redactor.Document].
// A value without a secret stays what it is. One that cannot be redacted is [Unprintable] (RD4).
func Logs(next slog.Handler, r *Redactor) slog.Handler { return logs{next: next, redactor: r} }

// logs is a log that redacts.
type logs struct {
	next     slog.Handler
	redactor *Redactor
	hidden   bool // a group that is open bears the name of a secret
}

// Enabled asks the log behind.
func (l logs) Enabled(ctx context.Context, level slog.Level) bool { return l.next.Enabled(ctx, level) }

// Handle writes a record.
func (l logs) Handle(ctx context.Context, record slog.Record) error {
	out := slog.NewRecord(record.Time, record.Level, l.redactor.whole(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(l.attr(a))
		return true
	})
	return l.next.Handle(ctx, out)
}

// WithAttrs adds attributes to all records.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.next = l.next.WithAttrs(l.attrs(attrs))
	return l
}

// WithGroup opens a group.
func (l logs) WithGroup(name string) slog.Handler {
	l.next = l.next.WithGroup(name)
	l.hidden = l.hidden || names(name)
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
		return a // a log leaves it out
	}
	value := a.Value.Resolve()
	kind := value.Kind()
	number := kind == slog.KindInt64 || kind == slog.KindUint64 || kind == slog.KindFloat64
	switch {
	case l.hidden || names(a.Key) && !(number && counts(a.Key)):
		value = slog.StringValue(Mark)
	case kind == slog.KindGroup:
		value = slog.GroupValue(l.attrs(value.Group())...)
	case kind == slog.KindString:
		value = slog.StringValue(l.redactor.whole(value.String()))
	case kind == slog.KindAny:
		value = l.redactor.logged(value.Any())
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// whole redacts a text that is not cut.
func (r *Redactor) whole(text string) string {
	return r.settled(text, func(p *printer, v any) (string, error) {
		wide := printer{cfg: p.cfg}
		wide.cfg.MaxString, wide.cfg.MaxDocument = maxScanned, maxScanned
		return wide.document(v)
	})
}

// logged is what is logged of a value of any kind.
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
	if safe := r.whole(text); safe != text {
		return slog.StringValue(safe)
	}
	return slog.AnyValue(v)
}

// inLog is a document in a log. One that was cut is a text.
func (r *Redactor) inLog(v any) slog.Value {
	doc := r.Document(v)
	if !json.Valid([]byte(doc)) {
		return slog.StringValue(doc)
	}
	return slog.AnyValue(document(doc))
}

// document is JSON in a log: in one in JSON it stands as it is.
type document string

func (d document) String() string               { return string(d) }
func (d document) MarshalJSON() ([]byte, error) { return []byte(d), nil }
