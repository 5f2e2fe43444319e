package scripted_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

// show prints what a model answers.
func show(m model.Model, req model.Request) {
	a, err := model.Collect(m.Stream(context.Background(), req), nil)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(a.Finish, a.Message.Text())
	for _, c := range a.Message.Calls() {
		fmt.Println("call:", c.Name, string(c.Arguments))
	}
}

func ExampleParse() {
	m, err := scripted.Parse("date.yaml", []byte(`
steps:
  - text: I look.
    calls:
      - name: bash
        args: {command: date}
  - text: It is {{(result "bash").stdout}}.
`))
	if err != nil {
		log.Fatal(err)
	}

	asked := perdure.Text("Which day is it?")
	show(m, model.Request{Messages: []perdure.Message{asked}})
	show(m, model.Request{Messages: []perdure.Message{asked, agent("I look.", called("c1", "bash")), result("c1", `{"stdout":"Friday"}`)}})
	// Output:
	// tool_calls I look.
	// call: bash {"command":"date"}
	// stop It is Friday.
}

func ExampleNew() {
	m, err := scripted.New(scripted.Script{
		Rules: []scripted.Rule{{
			When:  scripted.When{Attempt: new(1)},
			Reply: scripted.Reply{Error: &scripted.Failure{Code: model.Unavailable, Text: "try later"}},
		}},
		Steps: []scripted.Step{{Reply: scripted.Reply{Text: "Here I am."}, Repeat: true}},
	})
	if err != nil {
		log.Fatal(err)
	}

	show(m, model.Request{Attempt: 1})
	show(m, model.Request{Attempt: 2})
	// Output:
	// error: provider_unavailable: try later
	// stop Here I am.
}
