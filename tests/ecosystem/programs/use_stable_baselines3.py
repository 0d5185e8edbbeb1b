"""stable-baselines3: DQN and PPO play CartPole; an agent is saved and loaded.

PPO draws its actions on the device of its network, so that its numbers are compared on cpu only.
"""

import pathlib
import tempfile

import gymnasium
import torch
from reporting import check_on, device, report
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

where = device()
small = {"net_arch": [16]}


def weights(model):
    """Return the sum of the squares of all parameters."""
    check_on(model.policy, where)
    return sum(p.detach().square().sum() for p in model.policy.parameters())


agent = DQN(
    "MlpPolicy",
    "CartPole-v1",
    device=where,
    seed=0,
    policy_kwargs=small,
    learning_starts=32,
    batch_size=16,
    buffer_size=256,
    target_update_interval=50,
)
agent.learn(160)
numbers = {"dqn weights": weights(agent)}
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "agent.zip")
    agent.save(path)
    loaded = DQN.load(path, device=where)
environment = gymnasium.make("CartPole-v1")
state, _ = environment.reset(seed=1)
total = 0
for _ in range(10):
    action, _ = loaded.predict(state, deterministic=True)
    state, reward, *_ = environment.step(action)
    total += state[0]
numbers["dqn position"] = total
with torch.no_grad():
    numbers["dqn values"] = loaded.q_net(torch.ones(1, 4, device=where)).square().sum()

agent = PPO(
    "MlpPolicy",
    DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 2),
    device=where,
    seed=0,
    policy_kwargs=small,
    n_steps=32,
    batch_size=16,
    n_epochs=2,
)
agent.learn(64)
numbers["cpu.ppo weights"] = weights(agent)
numbers["cpu.ppo reward"] = evaluate_policy(agent, agent.get_env(), n_eval_episodes=2)[0]
report(numbers)
