package perdure_test

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The loop of a driver in small: fold the events, decide, record the decision, and execute the
// commands.
func ExampleSession_Decide() {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	session := perdure.NewSession("session_1")
	record := func(facts ...perdure.Fact) {
		for _, fact := range facts {
			if err := session.Apply(perdure.Event{Seq: session.Seq + 1, At: at, Fact: fact}); err != nil {
				fmt.Println(err)
			}
		}
	}
	message := perdure.Text("Hello?")
	message.ID = "message_1"
	record(perdure.SessionCreated{}, perdure.MessageReceived{Message: message})

	for {
		for _, command := range session.Decide(perdure.Moment{Now: at}) {
			switch c := command.(type) {
			case perdure.Record:
				for _, event := range c.Events {
					fmt.Println("record", event.Type())
					record(event.Fact)
				}
			case perdure.CallModel:
				fmt.Println("ask the model:", session.Transcript[0].Text())
				answer := perdure.Text("Hello.")
				answer.ID, answer.Role = c.Message, perdure.RoleAgent
				record(perdure.OutputCompleted{Message: answer}, perdure.ReasonCompleted{ExecID: c.Exec, Success: true})
			case perdure.ReleaseSession:
				fmt.Println("rest:", session.Transcript[1].Text())
				return
			}
		}
	}
	// Output:
	// record session.activated
	// record turn.started
	// record reason.started
	// record output.message.started
	// ask the model: Hello?
	// record turn.completed
	// record session.idled
	// rest: Hello.
}
