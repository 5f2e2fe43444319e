package anthropic_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/scripted"
)

// A model behind a local server; without BaseURL it is the public one.
func ExampleNew() {
	answers, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: scripted.Reply{Text: "Görlitz lies on the Neisse."}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(anthropictest.New(answers, anthropictest.Config{Key: "local"}))
	defer server.Close()

	m, err := anthropic.New(anthropic.Config{Name: "claude-sonnet-4-5", Key: "local", BaseURL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := model.Collect(m.Stream(context.Background(), model.Request{
		Messages: []perdure.Message{perdure.Text("Where is Görlitz?")},
	}), nil)

	fmt.Println(answer.Message.Text(), answer.Finish, err)
	// Output: Görlitz lies on the Neisse. stop <nil>
}
