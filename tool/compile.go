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

	"github.com/perdure/perdure/internal/strictjson"
)

// The limits of a schema, which may come from outside, and of numbers in arguments.
const (
	maxSchemaBytes   = 256 << 10
	maxSchemaObjects = 1000    // the compiler's work is quadratic in their number
	maxSchemaDepth   = 100     // nesting of JSON; also quadratic
	maxSteps         = 100_000 // visits in one validation; nested allOf can require an extreme number of them
	maxExponent      = 1000    // beyond it, exact arithmetic needs too much memory
	maxEnum          = 5000    // values of an enum
	maxPatternSize   = 5000    // characters of a pattern and of all patterns together, with repetitions written out
	// maxCompared limits the values of the arguments times those of the longest enum. The steps do
	// not count these comparisons.
	maxCompared = 10_000_000
)

const tooManySteps = "the schema takes too many steps for this value"

// schemaURL is the name of a schema inside the validator. It is not an address. It has a path, so
// that a relative reference is resolved to another URL and refused.
const schemaURL = "https://schema.invalid/parameters.json"

// schema is a compiled schema.
type schema struct {
	mu       sync.Mutex // guards steps: one validation at a time
	steps    int        // remaining steps of the validation
	enum     int        // values of the longest enum
	compiled *jsonschema.Schema
	foreign  bool // what cannot be checked is left to the program that the tool belongs to
}

// schemaKind says what a schema must describe.
type schemaKind int

const (
	anyValue schemaKind = iota
	objectsOnly
)

// compile compiles a JSON Schema, 2020-12 unless it names another draft. External references,
// duplicate keys and schemas that exceed the limits are errors.
func compile(text json.RawMessage, want schemaKind) (compiled *schema, err error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("the schema has more than %d bytes", maxSchemaBytes)
	}
	canonical, err := strictjson.Canonical(text)
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
		return nil, fmt.Errorf("the schema has %d parts in %d levels, at most %d parts in %d levels are allowed",
			objects, depth, maxSchemaObjects, maxSchemaDepth)
	}
	if number := outOfRangeNumber(doc); number != "" {
		return nil, fmt.Errorf("number out of range: %s", number)
	}
	enum := longestEnum(doc)
	if enum > maxEnum {
		return nil, fmt.Errorf("an enum has %d values, at most %d are allowed", enum, maxEnum)
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

// refusedSchema returns a schema that every registry refuses with the given reason. It lets a
// constructor without an error result report later what was wrong, even through decorators.
func refusedSchema(reason string) json.RawMessage {
	text, _ := encode(reason) // a string always encodes
	return text
}

// noLoader refuses every address, because fetching schemas would let others trigger requests.
type noLoader struct{}

// Load returns an error.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: schemas are never fetched", url)
}

// validate checks a value that was decoded by the validator's decoder.
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

// counting returns a vocabulary without keywords. The validator calls it whenever it visits a part
// of the schema, and it ends a validation with too many visits by a panic, which validate recovers.
func (s *schema) counting() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "urn:perdure:steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return step{s}, nil
		},
	}
}

type step struct{ schema *schema }

// Validate counts a visit.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	s.schema.steps--
	if s.schema.steps < 0 {
		panic(tooManySteps)
	}
}

// patterns returns the regexp engine of one schema: RE2, which needs linear time at most, with a
// limit for all patterns together, because memory and matching time grow with their size.
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

// patternSize returns the size of a pattern with its repetitions written out.
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

// countValues counts a value with everything in it.
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

// measure counts the objects and the levels of a document.
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

// outOfRangeNumber returns the first number that is too large or too long for exact arithmetic,
// shortened.
func outOfRangeNumber(value any) string {
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
			if found := outOfRangeNumber(child); found != "" {
				return found
			}
		}
	case []any:
		for _, child := range v {
			if found := outOfRangeNumber(child); found != "" {
				return found
			}
		}
	}
	return ""
}
