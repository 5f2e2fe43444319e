package scripted

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// maxScriptBytes bounds a script file.
const maxScriptBytes = 1 << 20

// Model answers from a script. Load, Parse or New make one, and it never changes.
type Model struct {
	name   string
	rules  []rule
	steps  []reply
	repeat bool // the last step also answers everything after it
	prefix bool // it can continue a given beginning of an answer
}

type rule struct {
	when  condition
	reply reply
}

var (
	_ model.Model    = (*Model)(nil)
	_ model.Prefixer = (*Model)(nil)
)

// ContinuesFrom implements model.Prefixer. The answer is the script's, for every name.
func (m *Model) ContinuesFrom(string) bool { return m.prefix }

// Load reads a script from a file, YAML or JSON. The model's name is the file name without its
// extension. Invalid: the script is wrong; the error says where and what is allowed. Any other
// error is that of the file system.
//
// A session that is resumed reads its script again. A file that is not a regular one, such as a
// pipe, is therefore Invalid and is not opened.
func Load(path string) (*Model, error) {
	at, err := os.Stat(path)
	if err == nil && !at.Mode().IsRegular() {
		err = fmt.Errorf("%w script %s: it is not a regular file", perdure.Invalid, path)
	}
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScriptBytes+1))
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a script, YAML or JSON. Errors mention name; without folders and extension it is also
// the model's name. Invalid: the script is wrong; the error says where and what is allowed.
func Parse(name string, text []byte) (*Model, error) {
	r := reader{lines: map[string]int{}}
	m, err := r.model(name, text)
	if err != nil {
		return nil, scriptError(name, err, r.lines)
	}
	return m, nil
}

func (r *reader) model(name string, text []byte) (*Model, error) {
	if len(text) > maxScriptBytes {
		return nil, newFault("", "the script is longer than %d bytes", maxScriptBytes)
	}
	s, err := r.script(text)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(name)
	s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	return compile(s)
}

// New makes a model from Go values, which must not change afterwards. Invalid: the script is wrong;
// the error says where and what is allowed.
func New(s Script) (*Model, error) {
	m, err := compile(s)
	if err != nil {
		return nil, scriptError(cmp.Or(s.Name, "script"), err, nil)
	}
	return m, nil
}

func compile(s Script) (*Model, error) {
	if len(s.Rules)+len(s.Steps) == 0 {
		return nil, newFault("", emptyScript)
	}
	m := &Model{name: cmp.Or(s.Name, "script"), prefix: s.Prefix}
	for i, r := range s.Rules {
		path := "rules[" + strconv.Itoa(i) + "]"
		when, err := compileWhen(r.When, path+".when")
		if err != nil {
			return nil, err
		}
		reply, err := compileReply(r.Reply, path)
		if err != nil {
			return nil, err
		}
		m.rules = append(m.rules, rule{when: when, reply: reply})
	}
	for i, step := range s.Steps {
		path := "steps[" + strconv.Itoa(i) + "]"
		if step.Repeat && i < len(s.Steps)-1 {
			return nil, newFault(path+".repeat", "only the last step can repeat: the steps after it would never be used")
		}
		reply, err := compileReply(step.Reply, path)
		if err != nil {
			return nil, err
		}
		m.steps = append(m.steps, reply)
		m.repeat = step.Repeat
	}
	return m, nil
}

// Stream implements model.Model. The requested name does not change the answer; Delta.Model is
// "scripted:" with that name, or with the script's name if none is requested. If the script has no
// answer, the error is an *model.Error of code Processing: no rule and no step fits, or a template
// fails.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for _, f := range m.frames(req) {
			if err := wait(ctx, f.wait); err != nil {
				yield(model.Delta{}, err)
				return
			}
			if f.cut {
				return
			}
			if !yield(f.delta, f.err) || f.err != nil {
				return
			}
		}
	}
}

func (m *Model) frames(req model.Request) []frame {
	r, err := m.choose(transcriptOf(req))
	if err != nil {
		return []frame{{err: err}}
	}
	a, err := r.fill(req, modelName(m.name, req.Model))
	if err != nil {
		return []frame{{err: &model.Error{Code: model.Processing, Text: fmt.Sprintf("script %q, %v", m.name, err), Err: err}}}
	}
	rest, ok := strings.CutPrefix(a.text, req.Prefix)
	if !ok {
		return []frame{{err: &model.Error{Code: model.Processing, Text: fmt.Sprintf(
			"script %q: its reply does not start with the %d bytes that it should continue", m.name, len(req.Prefix))}}}
	}
	a.text = rest
	return a.frames()
}

// choose returns the reply to a transcript.
func (m *Model) choose(t transcript) (*reply, error) {
	for i := range m.rules {
		if m.rules[i].when.holds(t) {
			return &m.rules[i].reply, nil
		}
	}
	n := t.count(perdure.RoleAgent)
	if n >= len(m.steps) && m.repeat {
		n = len(m.steps) - 1
	}
	if n < len(m.steps) {
		return &m.steps[n], nil
	}
	return nil, &model.Error{Code: model.Processing, Text: fmt.Sprintf(
		"script %q has no reply for this transcript (step %d, last role %s): add a rule or a step, or repeat the last step",
		m.name, n, cmp.Or(t.last().Role, "none"))}
}

// wait waits for d, or for the end of ctx, and then returns its cause.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
