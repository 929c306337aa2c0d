"""git-bayesect on the histories that `bisect_simulation` searches.

    python3 -m venv DIR && DIR/bin/pip install git-bayesect
    DIR/bin/python python/bayesect.py --histories 300 --seed 1

git-bayesect asks for a pass or a fail. It gets the best wrapper there is, which no user has: a run
fails if its value lies above the true middle of the two levels. The histories, culprits and noise
are those of the example (the same generator from the same seed); what differs is the search.
"""

import argparse
import math

import numpy
from git_bayesect import Bisector

WORD = (1 << 64) - 1
COMMITS = 200
CONFIDENCE = 0.99
MOST_RUNS = 1000


class Random:
    """SplitMix64, as in the example's noise.rs."""

    def __init__(self, seed: int) -> None:
        self.state = (seed * 0x9E3779B97F4A7C15 & WORD) ^ 0x5851F42D4C957F2D

    def uniform(self) -> float:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
        return (((z ^ (z >> 31)) >> 11) + 0.5) / (1 << 53)

    def normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log(self.uniform()))
        return radius * math.cos(math.tau * self.uniform())


def t3(random: Random) -> float:
    squares = sum(random.normal() ** 2 for _ in range(3))
    return random.normal() / math.sqrt(squares)


def lognormal(random: Random) -> float:
    spread = math.sqrt(math.exp(2.0) - math.exp(1.0))
    return (math.exp(random.normal()) - math.exp(0.5)) / spread


def outliers(random: Random) -> float:
    core, slow = random.normal(), 10.0 * abs(random.normal())
    return core + slow if random.uniform() < 0.05 else core


def modes(share: float):
    apart = 1.0 / math.sqrt(share * (1.0 - share))

    def draw(random: Random) -> float:
        slow = 1.0 if random.uniform() < share else 0.0
        return 0.1 * random.normal() + apart * (slow - share)

    return draw


NOISES = {
    "gaussian": Random.normal,
    "t3": t3,
    "lognormal": lognormal,
    "outliers": outliers,
    "modes-50-50": modes(0.5),
    "modes-30-70": modes(0.3),
    "modes-10-90": modes(0.1),
}


def search(noise, effect: float, seed: int) -> tuple[int, bool, bool]:
    """Runs, whether a commit was named, whether it is the culprit."""
    random = Random(seed)
    culprit = 1 + int(random.uniform() * COMMITS)
    for _ in range(COMMITS + 1):
        random.uniform()  # which commits cannot be built: none here
    # The peer numbers commits from the newest; commit 0 of the history is known to be good.
    bisector = Bisector(numpy.ones(COMMITS))
    for run in range(1, MOST_RUNS + 1):
        index = bisector.select()
        bad = COMMITS - index >= culprit
        value = (effect if bad else 0.0) + noise(random)
        bisector.record(index, value > 0.5 * effect)
        best = int(numpy.argmax(bisector.distribution))
        if bisector.distribution[best] >= CONFIDENCE:
            return run, True, COMMITS - best == culprit
    return MOST_RUNS, False, False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", default=",".join(NOISES))
    options = parser.parse_args()
    print("| noise | d | named | right | runs |\n|---|---|---|---|---|", flush=True)
    for name in options.noise.split(","):
        for effect in (0.5, 1.0, 2.0, 5.0):
            first = options.seed * 1_000_003 & WORD
            trials = [search(NOISES[name], effect, first + i) for i in range(options.histories)]
            runs = sum(trial[0] for trial in trials) / len(trials)
            named = sum(trial[1] for trial in trials)
            right = sum(trial[2] for trial in trials) / max(named, 1)
            share = named / len(trials)
            print(f"| {name} | {effect:g} | {share:.3f} | {right:.3f} | {runs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
