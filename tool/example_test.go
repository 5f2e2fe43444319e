package tool_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

type searchIn struct {
	Query string `json:"query" minLength:"1" jsonschema:"What to look for."`
	Limit int    `json:"limit,omitempty" min:"1" max:"50" default:"10"`
}

type searchOut struct {
	Hits []string `json:"hits"`
}

// A tool in three lines.
func ExampleFunc() {
	double := tool.Func("double", "Doubles a number.", perdure.Pure, func(_ context.Context, in struct{ N int }) (int, error) {
		return 2 * in.N, nil
	})

	result, err := tool.NewRegistry(double).Execute(context.Background(), tool.Call{Tool: "double", Args: []byte(`{"N":21}`)}, tool.Env{})
	if err != nil {
		fmt.Println(err)
		return
	}
	record, _ := result.Record("call_1")
	fmt.Println(string(record.Result))
	// Output: 42
}

func ExampleNew() {
	search := tool.New(tool.Spec{
		Name:        "search_notes",
		Description: "Finds notes by a word in them.",
		Class:       perdure.Pure,
	}, func(_ context.Context, in searchIn, _ tool.Env) (searchOut, error) {
		if in.Query == "nothing" {
			return searchOut{}, tool.Errorf("No note has the word %q.", in.Query)
		}
		return searchOut{Hits: []string{fmt.Sprintf("one of %d", in.Limit)}}, nil
	})
	tools := tool.NewRegistry(search)
	if err := tools.Err(); err != nil {
		fmt.Println(err)
		return
	}

	calls := []tool.Call{
		{Tool: "search_notes", Args: []byte(`{"query":"durable"}`)},
		{Tool: "search_notes", Args: []byte(`{"query":"nothing"}`)},
		{Tool: "search_notes", Args: []byte(`{"limit":99}`)},
	}
	results, err := tools.ExecuteAll(context.Background(), calls, tool.Env{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range results {
		record, _ := result.Record("call_1")
		fmt.Println(string(record.Result))
	}
	// Output:
	// {"hits":["one of 10"]}
	// {"error":"No note has the word \"nothing\"."}
	// {"error":"Invalid arguments for search_notes: /limit: got 99, want at most 50; /query: is required"}
}
