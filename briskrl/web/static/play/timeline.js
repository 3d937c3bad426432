// The states of a game and the moment that is shown. States arrive ahead of time in batches, so the
// page can show 60 of them in a second with one request in the same time.

const SECONDS_AHEAD = 2;
const FEWEST_AHEAD = 12;

export class Timeline {
  /** `want(shown, upto)` asks the player for more states. */
  constructor(want) {
    this.want = want;
    this.speed = 12;
    this.playing = true;
    this.begin({ epoch: 0, ahead: 0 });
  }

  /** A game begins. */
  begin({ epoch, ahead }) {
    this.epoch = epoch;
    this.ahead = ahead;
    this.states = [];
    this.at = 0;
    this.asked = 0;
    this.limit = Infinity;
  }

  /** The game goes on differently from state `from` on. */
  branch({ epoch, from }) {
    this.epoch = epoch;
    this.states.length = Math.min(this.states.length, from);
    this.asked = from;
  }

  /** Take a batch; false if it belongs to a game that is over. */
  receive({ epoch, from, states }) {
    if (epoch !== this.epoch) return false;
    states.forEach((state, index) => { this.states[from + index] = state; });
    return true;
  }

  get last() { return this.states.length - 1; }
  get index() { return Math.min(Math.floor(this.at), Math.max(this.last, 0)); }
  get state() { return this.states[this.index]; }
  get next() { return this.states[this.index + 1]; }
  /** How far the present state is on its way to the next one, 0 to 1. */
  get part() { return this.next ? this.at - this.index : 0; }
  get complete() { return this.last >= 0 && Boolean(this.states[this.last].end); }
  get over() { return this.complete && this.index === this.last; }

  /** Let `seconds` pass. */
  advance(seconds) {
    if (this.playing) {
      const most = Math.min(this.complete ? this.last : this.last + 0.999, this.limit);
      this.at = Math.max(this.at, Math.min(this.at + seconds * this.speed, most));
    }
    this.refill();
  }

  /** Go to a state, forward or back. */
  seek(index) {
    this.at = Math.max(0, Math.min(index, this.complete ? this.last : this.last + 1));
    this.refill();
  }

  refill() {
    if (this.complete || this.last < 0) return;
    const ahead = Math.min(this.ahead, Math.max(FEWEST_AHEAD, this.playing ? this.speed * SECONDS_AHEAD : 0));
    const upto = Math.ceil(this.at + ahead);
    // Half of what is ahead is used up before more is asked for.
    if (upto - this.asked < ahead / 2) return;
    this.asked = upto;
    this.want(this.index, upto);
  }
}
