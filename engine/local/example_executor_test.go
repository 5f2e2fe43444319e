package local_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/defaults"
)

// announcer carries out calls like the registry, and says so.
type announcer struct{ tools *tool.Registry }

var _ tool.Executor = announcer{}

func (a announcer) Execute(ctx context.Context, call tool.Call, env tool.Env) (tool.Result, error) {
	fmt.Printf("%s %s\n", call.Tool, call.Args)
	return a.tools.Execute(ctx, call, env)
}

// The tools of the perdure command, with an executor of the program in place of the registry. The
// engine still claims each call before it and settles it after.
func ExampleConfig_executor() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tools, err := defaults.Registry(defaults.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := scripted.Parse("sum", []byte(`
steps:
  - calls: [{name: add, args: {a: 19, b: 23}}]
  - text: 'It is {{(result "add").result}}.'
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	eng, err := local.Open(ctx, local.Config{
		Store: memory.New(memory.Config{}), Model: model, Tools: tools, Ports: local.Ports{Executor: announcer{tools}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("What is 19 + 23?"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(ctx, s.ID)
	}
	if err != nil {
		fmt.Println(err)
	}
	events, err := eng.Events(ctx, s.ID, 0, 0)
	if err != nil {
		fmt.Println(err)
	}
	for _, event := range events {
		if f, ok := event.Fact.(perdure.OutputCompleted); ok && f.Message.Text() != "" {
			fmt.Println(f.Message.Text())
		}
	}
	stop()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// add {"a":19,"b":23}
	// It is 42.
}
