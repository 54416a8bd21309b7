package file

import (
	"encoding/json"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// NewSchedule is a schedule to add, with the keys of the fleet file.
type NewSchedule struct {
	Name    string `json:"name"`
	Every   string `json:"every,omitempty"`
	Cron    string `json:"cron,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Jitter  string `json:"jitter,omitempty"`
	Missed  string `json:"missed,omitempty"`
	Overlap string `json:"overlap,omitempty"`
	From    string `json:"from,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Resume  bool   `json:"resume,omitempty"`
}

// Parse checks the schedule as one of a fleet file. ErrInvalid names the first
// mistake.
func (n NewSchedule) Parse() (Schedule, error) {
	raw, err := json.Marshal(n)
	if err != nil {
		return Schedule{}, err
	}
	// Whether the agent needs a prompt is not known without the file.
	parsed, err := new(File).ParseSchedule(Agent{Runner: fleet.RunnerCommand}, raw)
	var problems *Problems
	if errors.As(err, &problems) && len(problems.List) > 0 {
		first := problems.List[0]
		err = tidemark.Invalidf("%s", first.Message)
		if first.Hint != "" {
			err = hint.With(err, "%s", first.Hint)
		}
	}
	return parsed, err
}
