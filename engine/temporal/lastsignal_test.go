package temporal

import (
	"strconv"
	"testing"

	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	history "go.temporal.io/api/history/v1"
	taskqueue "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// script builds a history by hand, for orders of events that a server produces rarely.
type script struct {
	t *testing.T
	h history.History
}

// add appends an event and returns its number.
func (s *script) add(kind enums.EventType, e *history.HistoryEvent) int64 {
	e.EventId, e.EventType = int64(len(s.h.Events)+1), kind
	s.h.Events = append(s.h.Events, e)
	return e.EventId
}

// next is the id of the activity or timer that the next event begins: its number.
func (s *script) next() string { return strconv.Itoa(len(s.h.Events) + 1) }

// step appends a step of the workflow, which every event before it belongs to.
func (s *script) step() int64 {
	scheduled := s.add(enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, &history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowTaskScheduledEventAttributes{
		WorkflowTaskScheduledEventAttributes: &history.WorkflowTaskScheduledEventAttributes{TaskQueue: &taskqueue.TaskQueue{Name: "p"}},
	}})
	began := s.add(enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, &history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowTaskStartedEventAttributes{
		WorkflowTaskStartedEventAttributes: &history.WorkflowTaskStartedEventAttributes{ScheduledEventId: scheduled},
	}})
	return s.add(enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, &history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowTaskCompletedEventAttributes{
		WorkflowTaskCompletedEventAttributes: &history.WorkflowTaskCompletedEventAttributes{ScheduledEventId: scheduled, StartedEventId: began},
	}})
}

// json returns a value as a payload.
func (s *script) json(value any) *common.Payloads {
	data, err := encoded(value)
	if err != nil {
		s.t.Fatal(err)
	}
	return &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: data}}}
}

// start appends the start of a workflow.
func (s *script) start(name string, state any) {
	s.add(enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &common.WorkflowType{Name: name}, TaskQueue: &taskqueue.TaskQueue{Name: "p"}, Input: s.json(state),
		},
	}})
}

// signal appends a signal.
func (s *script) signal(w wake) {
	s.add(enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &history.WorkflowExecutionSignaledEventAttributes{SignalName: wakeSignal, Input: s.json(w)},
	}})
}

// schedule appends that the workflow asked for an activity in the step before.
func (s *script) schedule(step int64, name string) int64 {
	return s.add(enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, &history.HistoryEvent{Attributes: &history.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &history.ActivityTaskScheduledEventAttributes{
			ActivityId: s.next(), ActivityType: &common.ActivityType{Name: name}, TaskQueue: &taskqueue.TaskQueue{Name: "p"}, WorkflowTaskCompletedEventId: step,
		},
	}})
}

// complete appends the result of an activity.
func (s *script) complete(scheduled int64, result any) {
	began := s.add(enums.EVENT_TYPE_ACTIVITY_TASK_STARTED, &history.HistoryEvent{Attributes: &history.HistoryEvent_ActivityTaskStartedEventAttributes{
		ActivityTaskStartedEventAttributes: &history.ActivityTaskStartedEventAttributes{ScheduledEventId: scheduled},
	}})
	s.add(enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, &history.HistoryEvent{Attributes: &history.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &history.ActivityTaskCompletedEventAttributes{
			ScheduledEventId: scheduled, StartedEventId: began, Result: s.json(result),
		},
	}})
}

// timer appends that the workflow began to wait in the step before.
func (s *script) timer(step int64) int64 {
	return s.add(enums.EVENT_TYPE_TIMER_STARTED, &history.HistoryEvent{Attributes: &history.HistoryEvent_TimerStartedEventAttributes{
		TimerStartedEventAttributes: &history.TimerStartedEventAttributes{
			TimerId: s.next(), StartToFireTimeout: durationpb.New(linger), WorkflowTaskCompletedEventId: step,
		},
	}})
}

// fire appends that the wait is over.
func (s *script) fire(started int64) {
	s.add(enums.EVENT_TYPE_TIMER_FIRED, &history.HistoryEvent{Attributes: &history.HistoryEvent_TimerFiredEventAttributes{
		TimerFiredEventAttributes: &history.TimerFiredEventAttributes{TimerId: strconv.FormatInt(started, 10), StartedEventId: started},
	}})
}

// TestLastSignal tests that a workflow takes a signal that arrives in the same step as the end of
// its wait: it asks for another activity, and does not complete.
func TestLastSignal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		workflow, activity string
		state, result      any
	}{
		"session": {sessionType, driveActivity, sessionState{ID: "s"}, driveResult{Seq: 1}},
		"run":     {runType, runTaskActivity, runState{Task: "t"}, runResult{Waits: true}},
	}
	for name, test := range tests {
		for _, order := range []string{"timer_first", "signal_first"} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				s := script{t: t}
				s.start(test.workflow, test.state)
				s.signal(wake{Seq: 1})
				work := s.schedule(s.step(), test.activity)
				s.complete(work, test.result)
				step := s.step()
				wait := s.timer(step)
				if order == "timer_first" {
					s.fire(wait)
					s.signal(wake{Seq: 2})
				} else {
					s.signal(wake{Seq: 2})
					s.fire(wait)
				}
				next := s.step()
				s.schedule(next, test.activity)

				if err := replay(&s.h); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
