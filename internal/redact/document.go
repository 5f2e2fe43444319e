package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Config bounds what is shown of a document. The zero value is the defaults.
type Config struct {
	MaxString   int  // characters of a text in a document; 0: 200
	MaxDocument int  // characters of a document; 0: 500
	MaxDepth    int  // levels of objects, lists and JSON in texts; what is deeper is hidden whole; 0: 32
	Known       *Set // secrets that are hidden wherever they stand, before anything is cut; nil: none
}

// Redactor shows documents without their secrets, for people (RD1 to RD6): never what a model or a tool reads. nil is
// one with the defaults. Safe for concurrent use.
type Redactor struct{ cfg Config }

// New returns what shows documents within some bounds. It is an error if one of them is negative.
func New(cfg Config) (*Redactor, error) {
	for _, bound := range []struct {
		name  string
		value *int
		usual int
	}{{"string", &cfg.MaxString, 200}, {"document", &cfg.MaxDocument, 500}, {"depth", &cfg.MaxDepth, 32}} {
		if *bound.value < 0 {
			return nil, fmt.Errorf("redact.%s is %d: give a number from 1 on, or 0 for %d", bound.name, *bound.value, bound.usual)
		}
		if *bound.value == 0 {
			*bound.value = bound.usual
		}
	}
	return &Redactor{cfg: cfg}, nil
}

// Document is [Redactor.Document] with the defaults.
func Document(v any) string { return (*Redactor)(nil).Document(v) }

// JSON is [Redactor.JSON] with the defaults.
func JSON(v any) json.RawMessage { return (*Redactor)(nil).JSON(v) }

// JSON is a [Redactor.Document] where only JSON can stand: one that was cut, or is none, is a text.
func (r *Redactor) JSON(v any) json.RawMessage {
	doc := r.Document(v)
	if json.Valid([]byte(doc)) {
		return json.RawMessage(doc)
	}
	var out writer
	quote(&out, doc)
	return json.RawMessage(out.String())
}

// passes is how often what comes out is redacted again, until nothing changes.
const passes = 8

// Document writes a value for a log or a list: without what stands under the names of secrets and without the known
// ones, each text and the whole cut on a character (RD1 to RD3).
//
// A string, a []byte and a [json.RawMessage] are JSON, if they can be read so, or else text: a header, a query, a form,
// a line of a log. Any other value is written as JSON, keys of any type and errors included.
//
// What comes out stays the same if it is redacted again. If anything goes wrong, also in a method of the value, it is
// [Unprintable] and nothing else (RD4).
func (r *Redactor) Document(v any) string {
	return r.settled(v, func(p *printer, v any) (string, error) {
		text, err := p.document(v)
		return cut(text, p.cfg.MaxDocument), err
	})
}

// settled prints a value, and what was printed, until nothing changes.
func (r *Redactor) settled(v any, print func(*printer, any) (string, error)) (text string) {
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

// printer writes documents.
type printer struct{ cfg Config }

// document writes a value at the top: a text stands there as it is.
func (p *printer) document(v any) (string, error) {
	text, err := written(v, p.cfg.MaxDepth)
	return p.text(text, 0, p.cfg.MaxDocument), err
}

// text redacts a text: as JSON, if it is an object, a list or a text in JSON, of which so many characters are needed.
func (p *printer) text(text string, depth, most int) string {
	if isJSON(text) {
		out := &writer{most: min(most, maxWritten) * utf8.UTFMax}
		r := reader{text: strings.ToValidUTF8(text, "\uFFFD"), p: p, out: out}
		r.value(depth)
		return out.String()
	}
	return p.line(text)
}

// line redacts a text that is no JSON.
func (p *printer) line(text string) string {
	return scrub(strings.ToValidUTF8(p.cfg.Known.Mask(text), "\uFFFD"))
}

// isJSON reports whether a text is JSON that can hold anything.
func isJSON(text string) bool {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	return trimmed != "" && strings.IndexByte(`{["`, trimmed[0]) >= 0 && json.Valid([]byte(text))
}

// writer collects a document. It is full when it holds more than is ever shown: whoever writes then may stop.
type writer struct {
	strings.Builder
	most int
}

func (w *writer) full() bool { return w.Len() > w.most }

// leaf writes a text in a document.
func (p *printer) leaf(out *writer, text string, depth int) {
	if depth >= p.cfg.MaxDepth && isJSON(text) {
		text = Mark
	}
	quote(out, cut(p.text(text, depth, p.cfg.MaxString), p.cfg.MaxString))
}

// key writes a key and reports whether it hides its value.
func (p *printer) key(out *writer, key string) bool {
	quote(out, cut(p.line(key), p.cfg.MaxString))
	out.WriteByte(':')
	return names(key)
}
