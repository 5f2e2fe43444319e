package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Config limits what is shown of a document. The zero value means the defaults.
type Config struct {
	MaxString   int  // characters of a string in a document; 0: 200
	MaxDocument int  // characters of a document; 0: 500
	MaxDepth    int  // levels of objects, lists and JSON in strings; deeper values are hidden; 0: 32
	Known       *Set // secrets that are hidden wherever they occur, before anything is cut; nil: none
}

// Redactor shows documents without their secrets, for people. Never use it on what a model or a
// tool reads. nil is a redactor with the defaults. Safe for concurrent use.
type Redactor struct{ cfg Config }

// New returns a redactor with the given limits. It fails if a limit is negative.
func New(cfg Config) (*Redactor, error) {
	for _, bound := range []struct {
		name     string
		value    *int
		fallback int
	}{{"string", &cfg.MaxString, 200}, {"document", &cfg.MaxDocument, 500}, {"depth", &cfg.MaxDepth, 32}} {
		if *bound.value < 0 {
			return nil, fmt.Errorf("redact.%s is %d: give a number from 1 on, or 0 for %d", bound.name, *bound.value,
				bound.fallback)
		}
		if *bound.value == 0 {
			*bound.value = bound.fallback
		}
	}
	return &Redactor{cfg: cfg}, nil
}

// Document is [Redactor.Document] with the defaults.
func Document(v any) string { return (*Redactor)(nil).Document(v) }

// JSON is [Redactor.JSON] with the defaults.
func JSON(v any) json.RawMessage { return (*Redactor)(nil).JSON(v) }

// JSON is [Redactor.Document] as valid JSON: a document that was cut, or is not JSON, is encoded as
// a string.
func (r *Redactor) JSON(v any) json.RawMessage {
	doc := r.Document(v)
	if json.Valid([]byte(doc)) {
		return json.RawMessage(doc)
	}
	var out writer
	quote(&out, doc)
	return json.RawMessage(out.String())
}

// passes is how often the output is redacted again until nothing changes.
const passes = 8

// Document renders a value for a log or a list, without the values of secret names and without the
// known secrets. Every string and the document are cut at a character boundary.
//
// A string, a []byte and a [json.RawMessage] are read as JSON if possible, otherwise as text: a
// header, a query, a form, a line of a log. Any other value is encoded as JSON, including keys of
// any type and errors.
//
// The output is stable: redacting it again changes nothing. If anything fails, even in a method of
// the value, the output is [Unprintable] and nothing else.
func (r *Redactor) Document(v any) string {
	return r.redactStable(v, func(p *printer, v any) (string, error) {
		text, err := p.document(v)
		return cut(text, p.cfg.MaxDocument), err
	})
}

// redactStable prints a value, and then its own output, until nothing changes.
func (r *Redactor) redactStable(v any, print func(*printer, any) (string, error)) (text string) {
	defer func() {
		if recover() != nil {
			text = Unprintable
		}
	}()
	if r == nil {
		r, _ = New(Config{})
	}
	p := &printer{cfg: r.cfg}
	text, err := print(p, v)
	for range passes {
		if err != nil {
			return Unprintable
		}
		var again string
		if again, err = print(p, text); again == text && err == nil {
			return text
		}
		text = again
	}
	return Unprintable
}

// printer renders documents.
type printer struct{ cfg Config }

// document renders a value at the top level, where a string stands for itself.
func (p *printer) document(v any) (string, error) {
	text, err := written(v, p.cfg.MaxDepth)
	return p.text(text, 0, p.cfg.MaxDocument), err
}

// text redacts a string, as JSON if it is an object, a list or a JSON string. At most limit
// characters of the output are needed.
func (p *printer) text(text string, depth, limit int) string {
	if isJSON(text) {
		out := &writer{limit: min(limit, maxWritten) * utf8.UTFMax}
		r := reader{text: strings.ToValidUTF8(text, "\uFFFD"), p: p, out: out}
		r.value(depth)
		return out.String()
	}
	return p.line(text)
}

// line redacts text that is not JSON.
func (p *printer) line(text string) string {
	return scrub(strings.ToValidUTF8(p.cfg.Known.Mask(text), "\uFFFD"))
}

// isJSON reports whether a string is JSON that can contain a secret.
func isJSON(text string) bool {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	return trimmed != "" && strings.IndexByte(`{["`, trimmed[0]) >= 0 && json.Valid([]byte(text))
}

// writer collects a document. It is full once it holds more than is ever shown; then writing may
// stop.
type writer struct {
	strings.Builder
	limit int
}

func (w *writer) full() bool { return w.Len() > w.limit }

// leaf renders a string inside a document.
func (p *printer) leaf(out *writer, text string, depth int) {
	if depth >= p.cfg.MaxDepth && isJSON(text) {
		text = Mark
	}
	quote(out, cut(p.text(text, depth, p.cfg.MaxString), p.cfg.MaxString))
}

// key renders a key and reports whether its value is hidden.
func (p *printer) key(out *writer, key string) bool {
	quote(out, cut(p.line(key), p.cfg.MaxString))
	out.WriteByte(':')
	return isSecretName(key)
}
