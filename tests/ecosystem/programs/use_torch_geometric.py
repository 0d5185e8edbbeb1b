"""torch_geometric: convolutions over a random graph, and a classifier of small graphs in batches."""

import torch
from reporting import check_on, device, report
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TransformerConv, global_mean_pool
from torch_geometric.utils import add_self_loops, degree, to_undirected

where = device()
torch.manual_seed(0)
edges = to_undirected(torch.randint(20, (2, 40)))
graph = Data(x=torch.randn(20, 8), edge_index=edges, y=torch.randint(3, (20,))).to(where)
numbers = {"edges": graph.num_edges, "degree": degree(add_self_loops(graph.edge_index)[0][0], 20).square().sum()}


class Net(torch.nn.Module):
    """One layer of each kind."""

    def __init__(self):
        super().__init__()
        self.gcn = GCNConv(8, 16)
        self.gat = GATConv(16, 8, heads=2)
        self.sage = SAGEConv(16, 16)
        self.attention = TransformerConv(16, 3)

    def forward(self, x, edge_index):
        x = self.gcn(x, edge_index).relu()
        x = torch.nn.functional.elu(self.gat(x, edge_index))
        x = self.sage(x, edge_index).relu()
        return self.attention(x, edge_index)


model = Net().to(where)
check_on(model, where)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for step in range(4):
    loss = torch.nn.functional.cross_entropy(model(graph.x, graph.edge_index), graph.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss

graphs = [Data(x=torch.randn(5, 8), edge_index=torch.randint(5, (2, 8)), y=torch.tensor([i % 2])) for i in range(4)]
layer, head = GCNConv(8, 8).to(where), torch.nn.Linear(8, 2).to(where)
for number, batch in enumerate(DataLoader(graphs, batch_size=2)):
    batch = batch.to(where)
    scores = head(global_mean_pool(layer(batch.x, batch.edge_index), batch.batch))
    numbers[f"batch {number}"] = torch.nn.functional.cross_entropy(scores, batch.y)
report(numbers)
