package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure"
)

// The limits of a schema, which may come from outside (S9), and of a number in arguments.
const (
	maxSchemaBytes   = 256 << 10
	maxSchemaObjects = 1000       // the compiler's work grows with their square
	maxSchemaDepth   = 100        // of JSON; likewise
	maxSteps         = 100_000    // visits of one validation; nested allOf can ask for more than there is time
	maxExponent      = 1000       // beyond it, exact arithmetic costs memory
	maxEnum          = 5000       // values in one enum
	maxPatternSize   = 5000       // of one pattern and of all together: characters, repeated as often as it says
	maxCompared      = 10_000_000 // values of arguments, times those of the longest enum; the steps do not see them
)

const tooManySteps = "the schema takes too many steps for this value"

// schemaURL is where a schema stands for the validator. It is no address; it has a path, so that a relative
// reference leads elsewhere and is refused.
const schemaURL = "https://schema.invalid/parameters.json"

// schema is a compiled schema.
type schema struct {
	mu       sync.Mutex // guards steps: one validation at a time
	steps    int        // left of maxSteps
	enum     int        // values in the longest one
	compiled *jsonschema.Schema
}

// schemaKind says what a schema must describe.
type schemaKind int

const (
	anyValue schemaKind = iota
	objectsOnly
)

// compile reads a JSON Schema, 2020-12 unless it names another draft. References to anywhere else, keys
// twice, and schemas too large or too wild are errors.
func compile(text json.RawMessage, want schemaKind) (compiled *schema, err error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("the schema is over %d bytes", maxSchemaBytes)
	}
	canonical, err := perdure.CanonicalJSON(text)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return nil, err
	}
	if problem, ok := doc.(string); ok {
		return nil, fmt.Errorf("%s", problem) // see unusable
	}
	if root, _ := doc.(map[string]any); want == objectsOnly && root["type"] != "object" {
		return nil, fmt.Errorf(`the schema is not of "type": "object"`)
	}
	if objects, depth := measure(doc); objects > maxSchemaObjects || depth > maxSchemaDepth {
		return nil, fmt.Errorf("the schema has %d parts in %d levels, at most %d in %d are read", objects, depth, maxSchemaObjects, maxSchemaDepth)
	}
	if number := immoderate(doc); number != "" {
		return nil, fmt.Errorf("number out of range: %s", number)
	}
	enum := longestEnum(doc)
	if enum > maxEnum {
		return nil, fmt.Errorf("an enum has %d values, at most %d are read", enum, maxEnum)
	}
	defer func() {
		if v := recover(); v != nil {
			compiled, err = nil, fmt.Errorf("the schema cannot be read: %v", v)
		}
	}()
	s := &schema{enum: enum}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(patterns())
	compiler.RegisterVocabulary(s.counting())
	compiler.AssertVocabs()
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s.compiled, err = compiler.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// unusable is a schema that no registry admits; the reason becomes the refusal. It lets a constructor that
// never fails say later what was wrong, through any decorator.
func unusable(reason string) json.RawMessage {
	text, _ := encode(reason) // a string always encodes
	return text
}

// noLoader refuses every address: fetching a schema is a way to make requests for others (S9).
type noLoader struct{}

// Load refuses.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: schemas are never fetched", url)
}

// validate checks a value that the validator's own decoder made.
func (s *schema) validate(value any) (err error) {
	if s.enum > 0 && countValues(value) > maxCompared/s.enum {
		return errors.New("cannot be checked: " + tooManySteps)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = maxSteps
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("cannot be checked: %v", v)
		}
	}()
	return s.compiled.Validate(value)
}

// counting is a vocabulary without keywords. The validator calls it at every visit of a part of the schema,
// and it ends a validation that takes too many; the panic is caught in validate.
func (s *schema) counting() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "urn:perdure:steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return step{s}, nil
		},
	}
}

type step struct{ of *schema }

// Validate counts one visit.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	s.of.steps--
	if s.of.steps < 0 {
		panic(tooManySteps)
	}
}

// patterns returns how the patterns of one schema are compiled: in RE2, which takes no more than linear time,
// and together not above maxPatternSize, since memory and the time of a match grow with it (S8).
func patterns() jsonschema.RegexpEngine {
	seen, all := map[string]bool{}, 0 // the validator compiles a pattern more than once
	return func(text string) (jsonschema.Regexp, error) {
		compiled, size, err := compilePattern(text)
		if err != nil {
			return nil, err
		}
		if !seen[text] {
			seen[text] = true
			all += size
		}
		if all > maxPatternSize {
			return nil, fmt.Errorf("the patterns of the schema are larger than %d characters when repetitions are written out", maxPatternSize)
		}
		return compiled, nil
	}
}

func compilePattern(text string) (*regexp.Regexp, int, error) {
	if len(text) > maxPatternSize {
		return nil, 0, fmt.Errorf("a pattern is longer than %d bytes", maxPatternSize)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	size := patternSize(parsed)
	if size > maxPatternSize {
		return nil, 0, fmt.Errorf("the pattern %s is larger than %d characters when repetitions are written out", clip(text, 40), maxPatternSize)
	}
	compiled, err := regexp.Compile(text)
	return compiled, size, err
}

// patternSize counts what a pattern unfolds to.
func patternSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral || re.Op == syntax.OpCharClass {
		size = max(1, len(re.Rune))
	}
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}

// longestEnum returns the length of the longest enum in a document.
func longestEnum(value any) int {
	longest := 0
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if list, ok := child.([]any); ok && key == "enum" {
				longest = max(longest, len(list))
			}
			longest = max(longest, longestEnum(child))
		}
	case []any:
		for _, child := range v {
			longest = max(longest, longestEnum(child))
		}
	}
	return longest
}

// countValues counts a value and all that is in it.
func countValues(value any) int {
	n := 1
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			n += countValues(child)
		}
	case []any:
		for _, child := range v {
			n += countValues(child)
		}
	}
	return n
}

// measure counts the objects of a document, and its levels.
func measure(value any) (objects, depth int) {
	add := func(child any) {
		n, d := measure(child)
		objects, depth = objects+n, max(depth, d)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			add(child)
		}
		return objects + 1, depth + 1
	case []any:
		for _, child := range v {
			add(child)
		}
		return objects, depth + 1
	}
	return 0, 0
}

// immoderate returns the first number that is too large or too long for exact arithmetic, cut short.
func immoderate(value any) string {
	switch v := value.(type) {
	case json.Number:
		text := v.String()
		_, exponent, _ := strings.Cut(text, "e")
		n, err := strconv.Atoi(exponent)
		if len(text) > maxExponent || exponent != "" && (err != nil || n > maxExponent || n < -maxExponent) {
			return clip(text, 40)
		}
	case map[string]any:
		for _, child := range v {
			if found := immoderate(child); found != "" {
				return found
			}
		}
	case []any:
		for _, child := range v {
			if found := immoderate(child); found != "" {
				return found
			}
		}
	}
	return ""
}
