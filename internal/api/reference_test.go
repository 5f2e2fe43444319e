package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const reference = "../../docs/reference/api.md"

// told is what a page documents of the OpenAPI document.
type told struct {
	Paths      map[string]map[string]toldOperation `json:"paths"`
	Components struct {
		Schemas map[string]toldSchema `json:"schemas"`
	} `json:"components"`
}

type toldOperation struct {
	ID         string `json:"operationId"`
	Summary    string `json:"summary"`
	Farewell   string `json:"description"`
	Security   []any  `json:"security"`
	Parameters []struct {
		Name, In, Description string
		Required              bool
		Schema                toldSchema
	} `json:"parameters"`
	RequestBody *struct {
		Required bool `json:"required"`
		Content  map[string]struct {
			Schema  toldSchema      `json:"schema"`
			Example json.RawMessage `json:"example"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema toldSchema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type toldSchema struct {
	Ref         string                `json:"$ref"`
	Type        any                   `json:"type"`
	Format      string                `json:"format"`
	Description string                `json:"description"`
	Enum        []any                 `json:"enum"`
	Items       *toldSchema           `json:"items"`
	Properties  map[string]toldSchema `json:"properties"`
	Required    []string              `json:"required"`
}

// TestH1Reference compares the page of all operations with the document that a server serves;
// -update writes it.
func TestH1Reference(t *testing.T) {
	t.Parallel()
	_, served := newRig(t, nil).document()
	var doc told
	if err := json.Unmarshal(served, &doc); err != nil {
		t.Fatal(err)
	}
	page := doc.page()
	if *update {
		if err := os.WriteFile(reference, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, page) {
		t.Error("docs/reference/api.md is stale: go test ./internal/api -run TestH1 -update")
	}
}

// page writes the page.
func (d told) page() []byte {
	var out bytes.Buffer
	fmt.Fprint(&out, "# Operations of the HTTP API\n\nAll operations, by path, written from [openapi.json](openapi.json), which a server has at `/openapi.json`. "+
		"[http.md](http.md) says what\nholds for all of them: who asks, errors, pages, conditions, and requests that are sent again.\n")
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			d.operation(&out, strings.ToUpper(method), path, d.Paths[path][method])
		}
	}
	out.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		schema := d.Components.Schemas[name]
		fmt.Fprintf(&out, "\n### %s\n\n", name)
		if len(schema.Properties) == 0 {
			fmt.Fprintln(&out, orText(schema.Description, "It has no fields: `{}`."))
			continue
		}
		d.fields(&out, schema)
	}
	return out.Bytes()
}

// The headers that http.md describes once for all operations.
var everywhere = map[string]bool{"Idempotency-Key": true, "Perdure-Actor": true, "If-Match": true, "If-None-Match": true}

func (d told) operation(out *bytes.Buffer, method, path string, op toldOperation) {
	fmt.Fprintf(out, "\n## %s\n\n`%s %s`: %s.", op.ID, method, path, strings.TrimSuffix(op.Summary, "."))
	var headers []string
	for _, p := range op.Parameters {
		if everywhere[p.Name] && !slices.Contains(headers, "`"+p.Name+"`") {
			headers = append(headers, "`"+p.Name+"`")
		}
	}
	if len(headers) > 0 {
		fmt.Fprintf(out, " Takes %s.", strings.Join(headers, ", "))
	}
	if len(op.Security) == 0 {
		out.WriteString(" Needs no token.")
	}
	if op.Farewell != "" {
		fmt.Fprintf(out, " **%s**", op.Farewell)
	}
	out.WriteString("\n")
	rows := ""
	for _, p := range op.Parameters {
		if !everywhere[p.Name] {
			rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", p.Name, p.In, kind(p.Schema), cell(p.Description))
		}
	}
	if rows != "" {
		fmt.Fprintf(out, "\n| parameter | in | type | |\n|---|---|---|---|\n%s", rows)
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			content := op.RequestBody.Content[media]
			fmt.Fprintf(out, "\nBody: `%s`", media)
			if content.Schema.Ref != "" {
				fmt.Fprintf(out, ", %s", kind(content.Schema))
			}
			out.WriteString(".\n")
			var example bytes.Buffer
			if len(content.Example) > 0 && json.Compact(&example, content.Example) == nil && example.String() != "{}" {
				fmt.Fprintf(out, "\n```json\n%s\n```\n", example.String())
			}
		}
	}
	var answers []string
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := "`" + status + "`"
		for _, media := range slices.Sorted(maps.Keys(op.Responses[status].Content)) {
			switch schema := op.Responses[status].Content[media].Schema; {
			case media == "application/problem+json":
			case schema.Ref != "":
				answer += " " + kind(schema)
			default:
				answer += " `" + media + "`"
			}
		}
		answers = append(answers, answer)
	}
	fmt.Fprintf(out, "\nAnswers: %s.\n", strings.Join(answers, ", "))
}

// fields writes the fields of an object.
func (d told) fields(out *bytes.Buffer, schema toldSchema) {
	out.WriteString("| field | type | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		if len(field.Enum) > 0 {
			var words []string
			for _, word := range field.Enum {
				words = append(words, fmt.Sprintf("`%v`", word))
			}
			field.Description = strings.TrimSpace(strings.Join(words, ", ") + ". " + field.Description)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, kind(field), cell(field.Description))
	}
}

// kind names the type of a schema, with a link where it is an object of the page.
func kind(s toldSchema) string {
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if s.Items != nil {
		return "list of " + kind(*s.Items)
	}
	switch kinds := s.Type.(type) {
	case string:
		return strings.TrimSpace(kinds + " " + s.Format)
	case []any:
		return fmt.Sprint(kinds[0], " or ", kinds[len(kinds)-1])
	}
	return "any"
}

func orText(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// cell is a text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
