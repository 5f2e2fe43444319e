package providertools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/providertools"
	"github.com/perdure/perdure/model"
)

func tools(n int, schema string) (all []model.Tool) {
	for i := range n {
		all = append(all, model.Tool{Name: fmt.Sprintf("s__tool_%d", i), Description: "d", Parameters: json.RawMessage(schema)})
	}
	return all
}

// TestLearnLimit: the number of tools that a provider accepts is learnt from its error.
func TestLearnLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known, sent, want int
		text              string
	}{
		"OpenAI (obot-platform/mcp-catalog#516)": {0, 174, 128, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 174 instead."},
		"less than was known":                    {128, 100, 64, "Too many tools: a request may have up to 64 tools."},
		"more than was known":                    {64, 100, 64, "Maximum number of functions is 90"},
		"no number":                              {0, 200, 100, "too many tools were provided"},
		"another order":                          {0, 129, 128, "tools count 129 exceeds the limit of 128"},
		"pydantic":                               {0, 200, 64, "tools: List should have at most 64 items after validation, not 200"},
		"an older form":                          {0, 200, 128, "[…] is too long - 'functions', at most 128"},
		"Groq":                                   {0, 200, 128, "maximum number of items is 128 in tools"},
		"not about tools":                        {0, 200, 0, "maximum context length is 128 tokens"},
		"about one tool (nanbingxyz/5ire#403)":   {0, 20, 0, "Invalid 'tools[12].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."},
		"about one schema":                       {0, 20, 0, "tools.9.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := providertools.New(c.known, nil)
			err := known.Learn(&model.Error{Code: model.Misconfigured, Text: c.text}, tools(c.sent, `{}`))
			if known.Max() != c.want {
				t.Errorf("got %d, want %d", known.Max(), c.want)
			}
			if learnt := err.Again && strings.Contains(err.Text, "the next attempt has at most"); learnt != (c.want != 0) {
				t.Errorf("got %v", err)
			}
		})
	}
	known := providertools.New(0, nil)
	if err := known.Learn(&model.Error{Code: model.RateLimited, Text: "too many tools"}, tools(9, `{}`)); err.Code != model.RateLimited || known.Max() != 0 {
		t.Errorf("a rate limit: %v, %d", err, known.Max())
	}
}

// TestLearnSchemas: a description that a provider refuses becomes simpler, tool by tool, and in the
// end the tool that it names is left out.
func TestLearnSchemas(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"q":{"type":"string","minLength":1}}}`
	forms := []string{schema, `{"properties":{"q":{"type":"string"}},"type":"object"}`, `{"type":"object","properties":{}}`, ""}
	for name, text := range map[string]string{
		"by its place at Anthropic (makenotion/notion-mcp-server#341)": "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
		"by its place at OpenAI":                       "Invalid schema at tools[1].function.parameters",
		"by its name at OpenAI (garrytan/gbrain#1028)": `Invalid schema for function "s__tool_1": array schema missing items`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			known := providertools.New(0, slog.New(slog.NewTextHandler(&log, nil)))
			for i, want := range forms {
				sent := map[string]string{}
				for _, one := range known.Describe(tools(3, schema)) {
					sent[one.Name] = string(one.Parameters)
					if told := strings.Contains(one.Description, schema); told != (one.Name == "s__tool_1" && i == 2) {
						t.Errorf("attempt %d: %s is described as %s", i, one.Name, one.Description)
					}
				}
				if sent["s__tool_1"] != want || sent["s__tool_0"] != schema || sent["s__tool_2"] != schema {
					t.Fatalf("attempt %d: got %v", i, sent)
				}
				err := known.Learn(&model.Error{Code: model.InvalidToolSchema, Text: text}, tools(3, schema))
				if i < len(forms)-1 && (!err.Again || !strings.Contains(err.Text, "s__tool_1")) {
					t.Fatalf("attempt %d: got %v", i, err)
				}
			}
			if !strings.Contains(log.String(), "s__tool_1") {
				t.Errorf("logged %s", &log)
			}
		})
	}
	t.Run("without a name", func(t *testing.T) {
		t.Parallel()
		known := providertools.New(0, nil)
		refused := &model.Error{Code: model.Misconfigured, Text: "the json schema is not supported"}
		for range 2 {
			if err := known.Learn(refused, tools(2, schema)); !err.Again {
				t.Errorf("got %v", err)
			}
		}
		if err := known.Learn(refused, tools(2, schema)); err != refused || len(known.Describe(tools(2, schema))) != 2 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another error", func(t *testing.T) {
		t.Parallel()
		known := providertools.New(0, nil)
		other := &model.Error{Code: model.Misconfigured, Text: "invalid api key"}
		if err := known.Learn(other, tools(2, schema)); err != other {
			t.Errorf("got %v", err)
		}
	})
}

// TestDescribe: what is rewritten is logged at debug level, with the name of the tool, and once.
func TestDescribe(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	known := providertools.New(0, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	odd := `{"type":"object","properties":{"q":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`
	for range 2 {
		if got := string(known.Describe(tools(1, odd))[0].Parameters); got != `{"properties":{"q":{"type":"string"}},"type":"object"}` {
			t.Errorf("got %s", got)
		}
	}
	if strings.Count(log.String(), "tool=s__tool_0") != 1 || !strings.Contains(log.String(), "level=DEBUG") || !strings.Contains(log.String(), "/properties/q/$ref") {
		t.Errorf("logged %s", &log)
	}
	if got := string(known.Describe([]model.Tool{{Name: "none"}})[0].Parameters); got != `{"type":"object","properties":{}}` {
		t.Errorf("no schema: got %s", got)
	}
}

// TestLearning passes on what a stream yields, with what was learnt from its error.
func TestLearning(t *testing.T) {
	t.Parallel()
	known := providertools.New(0, nil)
	var last error
	yield := known.Learning(func(_ model.Delta, err error) bool { last = err; return true }, tools(200, `{}`))
	if !yield(model.Delta{Text: "a"}, nil) || last != nil {
		t.Errorf("got %v", last)
	}
	yield(model.Delta{}, &model.Error{Code: model.Misconfigured, Text: "at most 100 tools"})
	var e *model.Error
	if !errors.As(last, &e) || !e.Again || known.Max() != 100 {
		t.Errorf("got %v, %d", last, known.Max())
	}
	yield(model.Delta{}, errors.ErrUnsupported)
	if !errors.Is(last, errors.ErrUnsupported) {
		t.Errorf("got %v", last)
	}
}
