package scripted

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/perdure/perdure"
)

// maxPhraseBytes bounds the output of a template.
const maxPhraseBytes = 1 << 20

// textTemplate is a text of a script. If it contains {{ it is a template.
type textTemplate struct {
	plain string
	tmpl  *template.Template // nil: the text is plain
}

func compilePhrase(s, path string) (textTemplate, error) {
	if !strings.Contains(s, "{{") {
		return textTemplate{plain: s}, nil
	}
	form, err := template.New("template").Funcs(functions(transcript{})).Parse(s)
	if err != nil {
		f := newFault(path, "%s", trimPackageName(err))
		if strings.HasSuffix(f.text, "not defined") {
			f.text += "; allowed: last, user, note, result, json, lines, trim, and the functions of Go's text/template"
		}
		return textTemplate{}, f
	}
	return textTemplate{tmpl: form}, nil
}

// fill returns the text for a transcript.
func (p textTemplate) fill(t transcript) (string, error) {
	if p.tmpl == nil {
		return p.plain, nil
	}
	form, err := p.tmpl.Clone() // concurrent requests need functions of their own
	if err != nil {
		return "", err
	}
	var out boundedText
	if err := form.Funcs(functions(t)).Execute(&out, nil); err != nil {
		return "", fmt.Errorf("%s", trimPackageName(err))
	}
	return out.String(), nil
}

// trimPackageName removes the package name from the text of an error.
func trimPackageName(err error) string { return strings.TrimPrefix(err.Error(), "template: ") }

// functions returns the functions of a template.
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

// resultValue returns the latest result of a tool as a value, or an empty map if there is none.
func (t transcript) resultValue(tool string) (any, error) {
	body := t.result(tool)
	if len(body) == 0 {
		return map[string]any{}, nil
	}
	v, err := decode(body)
	return comparableNumbers(v), err
}

// lines splits a text into lines; a newline at the end does not start another line.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// boundedText refuses more than maxPhraseBytes.
type boundedText struct{ strings.Builder }

func (b *boundedText) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxPhraseBytes {
		return 0, fmt.Errorf("the template produces more than %d bytes", maxPhraseBytes)
	}
	return b.Builder.Write(p)
}
