package dispatch

import "github.com/perdure/perdure"

// Notification is the text by which a model learns of a late end (DL4): the transcript has the placeholder as the
// result of the call. It is data of a tool, not an instruction of a person; mark it so.
func (i Item) Notification() string {
	ended := perdure.Task{Run: perdure.RunID(i.Task), State: i.State, Tool: i.Tool, Summary: i.Result.Brief()}
	if i.Result.Error != "" {
		ended.Summary = i.Result.Error
	}
	if i.Call != "" {
		ended.Origin, ended.Call, ended.Result = perdure.OriginDetached, i.Call, perdure.ShortResult(i.Result.Result, "")
	}
	return ended.Notification()
}
