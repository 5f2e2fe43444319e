package scripted

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/perdure/perdure"
)

// maxPhraseBytes bounds what a template may write.
const maxPhraseBytes = 1 << 20

// phrase is a text of a script. Where {{ stands in it, it is a template.
type phrase struct {
	plain string
	form  *template.Template // nil: the text is plain
}

func compilePhrase(s, path string) (phrase, error) {
	if !strings.Contains(s, "{{") {
		return phrase{plain: s}, nil
	}
	form, err := template.New("template").Funcs(functions(transcript{})).Parse(s)
	if err != nil {
		f := faultAt(path, "%s", bare(err))
		if strings.HasSuffix(f.text, "not defined") {
			f.text += "; allowed: last, user, note, result, json, lines, trim, and those of Go's text/template"
		}
		return phrase{}, f
	}
	return phrase{form: form}, nil
}

// fill writes the phrase for a transcript.
func (p phrase) fill(t transcript) (string, error) {
	if p.form == nil {
		return p.plain, nil
	}
	form, err := p.form.Clone() // one form answers many requests at once, each with functions of its own
	if err != nil {
		return "", err
	}
	var out boundedText
	if err := form.Funcs(functions(t)).Execute(&out, nil); err != nil {
		return "", fmt.Errorf("%s", bare(err))
	}
	return out.String(), nil
}

// bare takes the package's name out of the text of an error.
func bare(err error) string { return strings.TrimPrefix(err.Error(), "template: ") }

// functions returns what a template may ask.
func functions(t transcript) template.FuncMap {
	return template.FuncMap{
		"last":   func() string { return textOf(t.last()) },
		"user":   func() string { return t.latest(perdure.RoleUser) },
		"note":   func() string { return t.latest(perdure.RoleNotification) },
		"result": t.resultValue,
		"json":   encode,
		"lines":  lines,
		"trim":   strings.TrimSpace,
	}
}

// resultValue returns the latest result of a tool as a value; an empty map where there is none.
func (t transcript) resultValue(tool string) (any, error) {
	body := t.result(tool)
	if len(body) == 0 {
		return map[string]any{}, nil
	}
	v, err := decode(body)
	return countable(v), err
}

// lines splits a text; an end of line at its end begins no further one.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// boundedText refuses what is more than maxPhraseBytes.
type boundedText struct{ strings.Builder }

// Write implements io.Writer.
func (b *boundedText) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxPhraseBytes {
		return 0, fmt.Errorf("the template writes more than %d bytes", maxPhraseBytes)
	}
	return b.Builder.Write(p)
}
