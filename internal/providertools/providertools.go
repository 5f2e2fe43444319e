// Package providertools describes tools to a provider in forms that it accepts, and learns from its
// refusals.
//
// It may import the root, model and internal/toolschema. Adapters use it.
//
// The one thing to know: only what is sent changes. Arguments are checked against the schema of the
// tool, and never against what a provider was sent.
package providertools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/toolschema"
	"github.com/perdure/perdure/model"
)

// Tools is what is known about the tools that one provider accepts. It is safe for concurrent use.
type Tools struct {
	log *slog.Logger

	mu    sync.Mutex
	limit int             // guarded by mu; how many tools a request may have; 0: not known
	forms map[string]form // guarded by mu; by name of the tool
}

// form is what the provider is sent for a tool.
type form struct {
	of    string // the schema that it is made from
	level int    // 0: portable; 1: plain; 2: empty; 3: the tool is left out
	sent  json.RawMessage
}

// The last forms of a schema.
const (
	levelPlain = 1
	levelEmpty = 2
	levelNone  = 3
)

// New returns what is known at the start. limit is how many tools a request may have; 0: not known.
// log receives what is rewritten; nil: nothing is logged.
func New(limit int, log *slog.Logger) *Tools {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Tools{log: log, limit: limit, forms: map[string]form{}}
}

// Max returns how many tools a request may have; 0: not known.
func (t *Tools) Max() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit
}

// Describe returns the tools with the schemas that the provider is sent. A tool that it refused in
// every form is left out.
func (t *Tools) Describe(tools []model.Tool) []model.Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var described []model.Tool
	for _, one := range tools {
		level := t.forms[one.Name].level
		if level == levelNone {
			continue
		}
		if level == levelEmpty && 0 < len(one.Parameters) && len(one.Parameters) <= maxSchemaText {
			one.Description += "\n\nIts arguments, as a JSON Schema: " + string(one.Parameters)
		}
		one.Parameters = t.schema(one.Name, one.Parameters)
		described = append(described, one)
	}
	return described
}

// maxSchemaText is the size up to which a schema that the provider refuses is part of a
// description.
const maxSchemaText = 8 << 10

// schema returns the schema that the provider is sent for a tool. The caller holds mu.
func (t *Tools) schema(name string, schema json.RawMessage) json.RawMessage {
	known := t.forms[name]
	if known.sent != nil && known.of == string(schema) {
		return known.sent
	}
	made := form{of: string(schema), level: known.level}
	switch {
	case len(schema) == 0 || made.level == levelEmpty:
		made.sent = toolschema.Empty
	case made.level == levelPlain:
		made.sent = toolschema.Plain(schema)
	default:
		var changed []string
		if made.sent, changed = toolschema.Portable(schema); len(changed) > 0 {
			t.log.Debug("the arguments of a tool are described to the provider in another form", "tool", name, "changed", changed)
		}
	}
	t.forms[name] = made
	return made.sent
}

// Learn learns from an error of the provider about these tools. If the same request can succeed in
// another form, the error says so; otherwise it is unchanged.
func (t *Tools) Learn(e *model.Error, tools []model.Tool) *model.Error {
	switch e.Code {
	case model.Misconfigured, model.InvalidToolSchema, model.Processing:
	default:
		return e
	}
	tools = t.Describe(tools)
	if limit, ok := limitIn(e.Text, len(tools)); ok {
		t.mu.Lock()
		t.limit = min(cmp.Or(t.limit, limit), limit)
		t.mu.Unlock()
		return again(e, fmt.Sprintf("the next attempt has at most %d tools", limit))
	}
	if e.Code != model.InvalidToolSchema && !aboutSchemas().MatchString(e.Text) {
		return e
	}
	last := levelEmpty
	which := namedIn(e.Text, tools)
	if len(which) == 0 {
		for i := range tools {
			which = append(which, i)
		}
	} else {
		last = levelNone
	}
	if names := t.simplify(which, tools, last); len(names) > 0 {
		t.log.Warn("the provider refused how the arguments of a tool are described; it gets a simpler description", "tools", names,
			"error", e.Text)
		return again(e, "the next attempt describes "+shown(names)+" more simply")
	}
	return e
}

// Learning returns a function that receives what a stream yields, learns from its error, and passes
// it on.
func (t *Tools) Learning(yield func(model.Delta, error) bool, tools []model.Tool) func(model.Delta, error) bool {
	return func(d model.Delta, err error) bool {
		if e := new(model.Error); errors.As(err, &e) {
			err = t.Learn(e, tools)
		}
		return yield(d, err)
	}
}

// again returns an error that says what the next attempt does.
func again(e *model.Error, what string) *model.Error {
	return &model.Error{Code: e.Code, Again: true, Text: e.Text + " (" + what + ")", Err: e}
}

// simplify gives these tools a simpler form, up to the last one, and returns the names of those
// that had one left.
func (t *Tools) simplify(which []int, tools []model.Tool, last int) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range which {
		known := t.forms[tools[i].Name]
		if known.level >= last {
			continue
		}
		t.forms[tools[i].Name] = form{level: known.level + 1}
		names = append(names, tools[i].Name)
	}
	return names
}

// maxShown is how many names a text lists.
const maxShown = 3

func shown(names []string) string {
	if more := len(names) - maxShown; more > 0 {
		return strings.Join(names[:maxShown], ", ") + fmt.Sprintf(" and %d others", more)
	}
	return strings.Join(names, ", ")
}

var (
	// toolAt matches the place of a tool in a request: tools[3].function.parameters, or
	// tools.3.custom.input_schema.
	toolAt = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:tools|function_declarations)[.\[](\d+)`) })
	// aboutSchemas matches an error about the schema of a tool.
	aboutSchemas = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)input_schema|json schema|function schema|tool schema|parameters schema|schema for function|` +
			`function\.parameters|function_declarations|(function|tool)s?\b.{0,40}\b(parameters|schema)`)
	})
	// tooMany matches an error about the number of tools.
	tooMany = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(tools|functions|function declarations).{0,60}(exceed|max|at most|limit|too long|too many)|` +
			`(too many|too long|max|at most|limit|more than|up to|exceed).{0,60}(tools|functions|function declarations)`)
	})
	numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+`) })
)

// smallestLimit is the smallest number of tools that an error is believed to allow.
const smallestLimit = 4

// limitIn returns the number of tools that an error allows: the largest number in it that is
// smaller than the number that was sent. Without one it is half of what was sent.
func limitIn(text string, sent int) (limit int, ok bool) {
	if sent <= smallestLimit || !tooMany().MatchString(text) || toolAt().MatchString(text) {
		return 0, false
	}
	for _, found := range numbers().FindAllString(text, -1) {
		if n, err := strconv.Atoi(found); err == nil && n < sent && n >= smallestLimit {
			limit = max(limit, n)
		}
	}
	return cmp.Or(limit, sent/2), true
}

// namedIn returns the tools that an error names, by their place or by their name.
func namedIn(text string, tools []model.Tool) (which []int) {
	for _, found := range toolAt().FindAllStringSubmatch(text, -1) {
		if i, err := strconv.Atoi(found[1]); err == nil && i < len(tools) && !slices.Contains(which, i) {
			which = append(which, i)
		}
	}
	if len(which) > 0 {
		return which
	}
	for i, one := range tools {
		if containsName(text, one.Name) {
			which = append(which, i)
		}
	}
	return which
}

// containsName reports whether a text contains a name that is not part of a longer one.
func containsName(text, name string) bool {
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		if (from == 0 || !isNameByte(text[from-1])) && (to == len(text) || !isNameByte(text[to])) {
			return true
		}
		at = to
	}
	return false
}

func isNameByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
