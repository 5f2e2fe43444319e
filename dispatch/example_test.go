package dispatch_test

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// Another agent loop runs its calls in lanes: a slow call leaves the turn, and its result is
// delivered later.
func ExampleAsync() {
	ctx := context.Background()
	report := make(chan string)
	calls, err := dispatch.NewAsync(ctx, dispatch.LoopConfig{
		Execute: func(ctx context.Context, call tool.Call, _ *perdure.Approval) dispatch.Outcome {
			if call.Tool == "now" {
				return dispatch.Outcome{Result: tool.Success("12:00")}
			}
			select {
			case text := <-report:
				return dispatch.Outcome{Result: tool.Success(text)}
			case <-ctx.Done():
				return dispatch.Outcome{Result: tool.Internal(context.Cause(ctx))}
			}
		},
		Spec: func(string) tool.Spec { return tool.Spec{SoftBudget: 300 * time.Millisecond} },
	})
	if err != nil {
		panic(err)
	}
	defer calls.Shutdown(ctx)

	// A model has requested two calls in one turn.
	for _, call := range []tool.Call{{ID: "call-1", Tool: "now"}, {ID: "call-2", Tool: "report"}} {
		call.Session, call.Turn = "s", "t"
		if _, err := calls.Start(ctx, dispatch.Launch{Call: call}); err != nil {
			panic(err)
		}
	}
	for { // one result for each call, then the next model call
		update, more := calls.WaitTurn(ctx, "t")
		if !more {
			break
		}
		if update.Detached != nil {
			fmt.Println(update.Detached.Call, "continues in the background")
			continue
		}
		fmt.Println(update.Resolution.Item.Call, string(update.Resolution.Item.Result.Result))
	}

	// Later, before the next model call, results of detached calls become notifications.
	report <- "all is well"
	if err := calls.Handle().WaitIdle(ctx); err != nil {
		panic(err)
	}
	for _, late := range calls.TakePending("s") {
		fmt.Println(late.Item.Call, string(late.Item.Result.Result))
	}
	// Output:
	// call-1 "12:00"
	// call-2 continues in the background
	// call-2 "all is well"
}
